"""The site of a rehearsal: the customer's own text, with what only his machines have replaced or left out.

Addresses always change: a rehearsal must not be able to reach the site, even where it runs next to it.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import AddressValueError, IPv4Address, IPv4Network, NetmaskValueError
from typing import Any

from appliance.config.document import Document
from appliance.models.site import BMC_NETWORK, Host, Role, Site

FIRST_NUMBER, LAST_NUMBER = 2, 250
"""Last parts of hosts' addresses; the rack's own are at both ends."""
ACCESS = {"user": "root", "private_key": "id_ed25519", "known_hosts": "known_hosts"}
SIMULATED = ["gpu", "fabric"]
OF_CONTAINERS = ("enroot", "pyxis")
NOT_ON_A_RACK = (
    "address_image",
    "network_version",
    "dns",
    "source_parts",
    "registry_mirrors",
    "oidc",
)
"""Keys of section kubernetes that need the makers' images, or servers outside of the site."""
Data = dict[str, Any]


@dataclass(frozen=True)
class Rack:
    """The rack's side of a rehearsed site. ``numbers``: last part of each host's address.

    ``packages``: mirror, key and fingerprint of the GPU packages it serves. ``cluster``: keys of its Kubernetes, by section.
    """

    network: IPv4Network
    numbers: Mapping[str, int]
    packages: Mapping[str, str]
    cluster: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


@dataclass
class Made:
    """A rehearsed site as data, and one line for each part of the original that it lacks."""

    data: Data
    lacks: list[str] = field(default_factory=list)


def plain(document: Document) -> Data:
    """The data of a file; numbers that YAML would shorten, as release 1.30, stay as they are written."""

    def walk(value: object, path: tuple[str | int, ...]) -> Any:
        if isinstance(value, dict):
            return {key: walk(one, (*path, key)) for key, one in value.items()}
        if isinstance(value, list):
            return [walk(one, (*path, i)) for i, one in enumerate(value)]
        text = document.texts.get(path)
        return text if text is not None and text != str(value) else value

    found = walk(document.data, ())
    return found if isinstance(found, dict) else {}


def chosen(sites: Sequence[Site], most: int) -> tuple[str, ...]:
    """At most ``most`` hosts of these sites, in the order of the last: those that one of them lacks, then one of each kind."""
    hosts = {host.name: host for site in sites for host in site.hosts}
    common = set.intersection(*({host.name for host in site.hosts} for site in sites))
    kinds: dict[object, list[str]] = {}
    for host in hosts.values():
        kinds.setdefault(_kind(sites[-1], host), []).append(host.name)
    first = [name for name in hosts if name not in common]
    rounds = [names[n] for n in range(len(hosts)) for names in kinds.values() if n < len(names)]
    # One of each kind comes before hosts that merely have another role than GPU.
    wanted = [*first, *rounds[: len(kinds)]]
    wanted += [host.name for host in hosts.values() if Role.GPU not in host.roles]
    kept = set(list(dict.fromkeys([*wanted, *rounds]))[: max(most, len(kinds))])
    return tuple(name for name in hosts if name in kept)


def _kind(site: Site, host: Host) -> object:
    return frozenset(host.roles), host.hardware_class, host.gpus, site.owner(host)


def numbered(sites: Iterable[Site], names: Collection[str]) -> dict[str, int]:
    """The last part of each host's address in the rack: its own where no other host of the rehearsal has it."""
    hosts = {h.name: h for site in sites for h in site.hosts if h.name in names}
    numbers: dict[str, int] = {}
    for host in hosts.values():
        own = host.address.packed[3]
        if own not in numbers.values() and FIRST_NUMBER <= own <= LAST_NUMBER:
            numbers[host.name] = own
    free = (n for n in range(FIRST_NUMBER, LAST_NUMBER) if n not in numbers.values())
    return {name: numbers[name] if name in numbers else next(free) for name in hosts}


def rehearsed(document: Document, site: Site, profile: str, rack: Rack) -> Made:
    """The site on the rack's hosts. ``profile``: name of its class."""
    made = Made(plain(document))
    data = made.data
    data["profile"] = profile
    data["access"] = dict(ACCESS)
    data["simulated"] = list(SIMULATED)
    _hosts(made, rack)
    _base(made)
    _software(made, rack)
    _cluster(made, rack)
    _storage(made)
    _fabric(made)
    _without(made, ("provision",), "installation of machines (provision)")
    _without(made, ("backup",), "backups: their target is outside of the rack")
    _without(made, ("observe", "receivers"), "alert receivers: a rehearsal sends nothing")
    _without(made, ("observe", "mail"), "")
    left_out = {host.name for host in site.hosts} - rack.numbers.keys()
    made.data = _pruned(data, left_out)
    made.data = _moved(made.data, _addresses(site, rack), rack)
    management = dict(made.data["networks"]["management"])
    management |= {"cidr": str(rack.network), "gateway": str(rack.network[1])}
    for key in ("dns", "dhcp"):
        management.pop(key, None)
    made.data["networks"] = {"management": management}
    made.data["secrets"] = {name: {"file": f"secrets/{name}"} for name in data.get("secrets", {})}
    return made


def _hosts(made: Made, rack: Rack) -> None:
    kept = [host for host in made.data["hosts"] if host["name"] in rack.numbers]
    if any(host.get("bmc") for host in kept):
        made.lacks.append("BMCs, BIOS and firmware")
    further = [name for name in made.data["networks"] if name not in ("management", BMC_NETWORK)]
    if further:
        made.lacks.append(f"networks {', '.join(further)}: their traffic uses management")
    for host in kept:
        for key in ("bmc", "mac", "disk", "addresses"):
            host.pop(key, None)
        if "class" in host:
            host["class"] = _stem(host["class"])
        host["address"] = str(rack.network[rack.numbers[host["name"]]])
    made.data["hosts"] = kept


def _stem(name: str) -> str:
    """A class is a name, or a file below the site's folder; the rehearsal has all files in one folder."""
    last = name.rpartition("/")[2]
    return last.removesuffix(".yml").removesuffix(".yaml")


def _base(made: Made) -> None:
    for key, what in (
        ("mirror", "package mirror (base.mirror): hosts of the rack use this machine's"),
        ("security_mirror", ""),
        ("ntp_servers", "time servers: hosts of a rack have this machine's clock"),
        ("logs", "central log server (base.logs)"),
    ):
        _without(made, ("base", key), what)


def _software(made: Made, rack: Rack) -> None:
    given = made.data.get("repositories", {})
    if given.get("bundle"):
        made.lacks.append("the bundle of packages (repositories.bundle)")
    repositories: Data = {"gpu": {**rack.packages}}
    if "kernel_modules" in given.get("gpu", {}):
        repositories["gpu"]["kernel_modules"] = given["gpu"]["kernel_modules"]
    if given.get("doca"):
        repositories["doca"] = {**rack.packages}
    made.data["repositories"] = repositories
    if _without(made, ("slurm", "containers"), "containers in jobs (slurm.containers)"):
        for name in OF_CONTAINERS:
            _without(made, ("software", name), "")


def _cluster(made: Made, rack: Rack) -> None:
    """The rack's release of Kubernetes from its own offline source; the site's names, queues and limits."""
    given = made.data.get("kubernetes")
    if not isinstance(given, dict):
        return
    for key in NOT_ON_A_RACK:
        _without(made, ("kubernetes", key), "")
    for section, keys in rack.cluster.items():
        if section == "software" or section in made.data:
            made.data[section] = {**made.data.get(section, {}), **keys}
    release = rack.cluster.get("kubernetes", {}).get("version", "")
    made.lacks.append(
        f"releases and images of Kubernetes: the rack has {release}, its own container runtime and pod network"
    )


def _storage(made: Made) -> None:
    section = made.data.get("storage", {})
    foreign = {export.get("path") for export in section.get("external", ())}
    if foreign:
        made.lacks.append(f"mounts of other servers: {', '.join(sorted(map(str, foreign)))}")
        own = [m for m in section.get("mounts", ()) if m.get("export") not in foreign]
        section["mounts"] = own
        section.pop("external")
    if isinstance(section.get("scratch"), dict):
        _without(made, ("storage", "scratch", "devices"), "scratch disks (storage.scratch.devices)")


def _fabric(made: Made) -> None:
    if _without(made, ("fabric", "cables"), "cables: the rack has its own cabling"):
        _without(made, ("fabric", "trunks"), "")
        made.data["fabric"].pop("cabling", None)
    _without(made, ("fabric", "ipoib"), "IP over InfiniBand (fabric.ipoib)")


def _without(made: Made, path: Sequence[str], lack: str) -> bool:
    """Removes a key, and notes ``lack`` if it was there."""
    section: Any = made.data
    for key in path[:-1]:
        section = section.get(key) if isinstance(section, dict) else None
    if not isinstance(section, dict) or path[-1] not in section:
        return False
    had = section.pop(path[-1])
    if lack and had:
        made.lacks.append(lack)
    return True


def _pruned(data: Data, left_out: Collection[str]) -> Data:
    """Without what other sections say of hosts that are left out: names in lists, keys, and entries with key ``host``."""

    def walk(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: walk(one) for key, one in value.items() if key not in left_out}
        if isinstance(value, list):
            return [walk(one) for one in value if not gone(one)]
        return value

    def gone(one: Any) -> bool:
        named = one.get("host") if isinstance(one, dict) else one
        return isinstance(named, str) and named in left_out

    # People and hosts are named independently of each other.
    apart = {"base", "hosts"}
    return {key: one if key in apart else walk(one) for key, one in data.items()}


def _addresses(site: Site, rack: Rack) -> Mapping[IPv4Address, IPv4Address]:
    return {
        host.address: rack.network[rack.numbers[host.name]]
        for host in site.hosts
        if host.name in rack.numbers
    }


def _moved(data: Data, hosts: Mapping[IPv4Address, IPv4Address], rack: Rack) -> Data:
    """With addresses and networks of the management network in the rack's, in all sections but hosts and networks."""
    old = IPv4Network(data["networks"]["management"]["cidr"], strict=False)

    def move(text: str) -> str:
        if (address := _parsed(IPv4Address, text)) is not None:
            if address in hosts:
                return str(hosts[address])
            if address in old:
                return str(rack.network[address.packed[3] or LAST_NUMBER])
            return text
        network = _parsed(IPv4Network, text)
        return str(rack.network) if network is not None and network.subnet_of(old) else text

    def walk(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: walk(one) for key, one in value.items()}
        if isinstance(value, list):
            return [walk(one) for one in value]
        return move(value) if isinstance(value, str) else value

    apart = {"hosts", "networks"}
    return {key: one if key in apart else walk(one) for key, one in data.items()}


def _parsed(kind: Callable[[str], Any], text: str) -> Any:
    if not text[:1].isdecimal():
        return None
    try:
        return kind(text)
    except (AddressValueError, NetmaskValueError, ValueError):
        return None


def without_hosts(names: Iterable[str], site: Site) -> Iterator[str]:
    """The hosts of the site that are not among these."""
    kept = set(names)
    yield from (host.name for host in site.hosts if host.name not in kept)
