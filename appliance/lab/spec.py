"""The parts of a rack, and every name, address and path derived from them."""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from types import MappingProxyType
from typing import Any

from appliance.errors import ConfigError
from appliance.lab.hardware import Hardware
from appliance.provision.sources import RELEASES

EMBEDDED = "rack"
"""The rack a verb means that is given no site."""
STATE_ROOT = Path("/var/lib/appliance/lab")
TABLES = "appliance_lab_"
"""Prefix of the nftables tables that masquerade one of our networks."""
MAX_HOSTS = 32
COMPLETE_HOSTS, COMPLETE_SLURM = 6, 2
"""Hosts of a complete rack, the head included, and how many of its GPU hosts are Slurm's."""
COMPLETE_GPU_HOSTS = 2
"""GPU hosts of Kubernetes that a complete rack needs: one with divided GPUs, one with whole ones."""
SEVERAL_CONTROL = 3
CGROUPS_V1 = ("12",)
"""Debian releases whose systemd still takes control groups of version 1, which hosts of a rack's cluster have."""
CLUSTER_LAYER = "kubernetes"
"""The image layer of a rack whose hosts carry a cluster."""
SIMULATOR_LAYER = "simulator"
"""In a layer next to the image of plain hosts, never in it: the fabric simulator and its libraries."""
CHARTS_LAYER = "charts"
"""The image layer that adds Helm and look-alike charts to the cluster's offline source."""
IMAGE_LAYER = "machines"
"""For virtual machines: the folder of the disk image that is installed."""
KINDS = ("container", "vm")
"""The kinds of a rack's hosts."""


def cache_root() -> Path:
    """Folder of images and built libraries: $APPLIANCE_CACHE or /var/cache/appliance."""
    return Path(os.environ.get("APPLIANCE_CACHE", "/var/cache/appliance"))


def folder_of(name: str) -> Path:
    """The folder of the rack called ``name``. Raises ConfigError: an empty name is the folder of all racks."""
    if not re.fullmatch(r"[a-z]([a-z0-9-]{0,22}[a-z0-9])?", name):
        raise ConfigError(
            f'"{name}" cannot name a rack',
            "use 1 to 24 lower-case letters, digits and hyphens, starting with a letter",
        )
    return STATE_ROOT / name


@dataclass(frozen=True)
class Member:
    """A host of a rack that follows another site: its name and roles there.

    ``number``: the last part of its address; ``profile``: the file of its hardware class; ``gpus``: if fewer than the class has.
    """

    name: str
    roles: tuple[str, ...]
    number: int
    profile: str
    gpus: int = 0


@dataclass(frozen=True)
class RackSpec:
    """The requested rack: ``hosts`` includes the head host, ``gpu`` names a part other than the profile's.

    ``kubernetes``: hosts that can run a cluster, and a site with one. ``slurm``: number of its GPU hosts,
    from the first one, that belong to Slurm then. ``control``: number of hosts, from the first one, with its control plane.
    ``driver``: the GPU hosts have a driver, as from an image with one; otherwise stage gpu installs it.
    ``plain``: hosts as the installer of this Debian release ("12", "13") leaves them, with one account, ``user``, and no
    site; with ``kubernetes``, packages and images of the site can create a cluster on them. ``marked`` is False only in tests: the hosts then do not report that their hardware is simulated.
    ``classes``: the GPU hosts by class, such as "balanced=1,hpc=2", if there are several; otherwise all are of ``profile``.
    ``complete``: with ``kubernetes``, a site with queues, divided GPUs and two example users next to the cluster.
    ``machines``: one of KINDS; "vm" are virtual machines without a system, off, with BMCs.
    ``members``: the hosts of another site, whose site.yml is written elsewhere; without any, a rack names its own hosts.
    """

    name: str = EMBEDDED
    hosts: int = 3
    profile: str = "hpc"
    gpu: str = ""
    kubernetes: bool = False
    driver: bool = False
    slurm: int = 0
    control: int = 1
    plain: str = ""
    user: str = "installer"
    marked: bool = True
    machines: str = KINDS[0]
    classes: str = ""
    complete: bool = False
    members: tuple[Member, ...] = ()

    def __post_init__(self) -> None:
        self._refuse_classes()
        self._refuse_plain()
        self._refuse_virtual()
        folder_of(self.name)
        if not 1 <= self.hosts <= MAX_HOSTS:
            raise ConfigError(
                f"a rack has 1 to {MAX_HOSTS} hosts, not {self.hosts}", "give another --count"
            )
        if self.control != 1 and not (
            self.kubernetes and self.control == SEVERAL_CONTROL and self.control < self.hosts
        ):
            raise ConfigError(
                f"a rack of {self.hosts} hosts cannot have {self.control} control planes",
                f"one, or {SEVERAL_CONTROL} of more hosts with --kubernetes",
            )
        if self.slurm and not (self.kubernetes and self.slurm <= self.hosts - self.control):
            raise ConfigError(
                f"{self.slurm} hosts cannot be set aside for Slurm",
                "only GPU hosts can, of a rack with --kubernetes; without a cluster all are Slurm's",
            )
        self._refuse_complete()

    @property
    def is_virtual(self) -> bool:
        """Whether the hosts are virtual machines, which ``appliance provision install`` gives their system."""
        return self.machines == "vm"

    @property
    def class_of_each(self) -> tuple[str, ...]:
        """The class of each GPU host, in their order; empty if all are of ``profile``."""
        if self.members:
            return tuple(member.profile for member in self.members if "gpu" in member.roles)
        parts = (part.rpartition("=") for part in self.classes.split(",") if part)
        return tuple(name for name, _, count in parts for _ in range(int(count)))

    def _refuse_classes(self) -> None:
        if self.classes and len(self.class_of_each) + self.control != self.hosts:
            raise ConfigError(
                f"{self.classes} gives {len(self.class_of_each)} GPU hosts, but a rack of {self.hosts} hosts has {self.hosts - self.control}",
                "omit --count if --gpu-hosts gives the number of hosts of each class",
            )
        if self.classes and self.is_virtual:
            raise ConfigError(
                "the virtual machines of a rack must have the same class",
                "use --profile instead of --gpu-hosts",
            )

    def _refuse_complete(self) -> None:
        if self.complete and self.plain:
            raise ConfigError(
                "the site of plain hosts is your own: a rack cannot complete it",
                "leave --plain or --complete out",
            )
        if self.complete and self.hosts - self.control - self.slurm < COMPLETE_GPU_HOSTS:
            raise ConfigError(
                f"{self.hosts} hosts leave Kubernetes {max(0, self.hosts - self.control - self.slurm)} GPU hosts, and --complete needs {COMPLETE_GPU_HOSTS}",
                f"give --count {self.control + self.slurm + COMPLETE_GPU_HOSTS}, or leave more to Kubernetes (--slurm)",
            )

    def _refuse_virtual(self) -> None:
        if self.machines not in KINDS:
            raise ConfigError(f"no rack is made of {self.machines}", "one of " + ", ".join(KINDS))
        if self.is_virtual and (self.plain or self.kubernetes or self.driver):
            raise ConfigError(
                "virtual machines come blank, and their rack carries no cluster",
                "leave --plain, --kubernetes and --set driver out",
            )

    def _refuse_plain(self) -> None:
        if self.plain and self.plain not in RELEASES:
            raise ConfigError(
                f"there are no plain hosts of Debian {self.plain}",
                "one of " + ", ".join(RELEASES),
            )
        if self.plain and (self.driver or self.slurm or self.control != 1):
            raise ConfigError(
                "--plain cannot be combined with --slurm, --set driver or --set control",
                "omit them; the site sets the roles of plain hosts",
            )
        if self.kubernetes and self.plain not in ("", *CGROUPS_V1):
            raise ConfigError(
                f"plain hosts of Debian {self.plain} carry no cluster here",
                "their systemd refuses control groups of version 1, which the rack gives to hosts of a cluster: take "
                + ", ".join(CGROUPS_V1),
            )
        if not re.fullmatch(r"[a-z][a-z0-9-]{0,30}", self.user) or self.user == "root":
            raise ConfigError(
                f'"{self.user}" cannot be the account of plain hosts',
                "lower-case letters, digits and hyphens, starting with a letter; not root",
            )


@dataclass(frozen=True)
class RackHost:
    """One container host of a rack."""

    name: str
    roles: tuple[str, ...]
    address: str
    machine: str
    folder: Path

    @property
    def is_gpu(self) -> bool:
        """Whether the host carries simulated GPUs."""
        return "gpu" in self.roles

    @property
    def root(self) -> Path:
        """The host's root filesystem, an overlay while the host's disk is mounted."""
        return self.folder / "root"

    @property
    def hardware(self) -> Path:
        """The layer of substitutes for a plain host's hardware and kernel, below the host's files."""
        return self.folder / "hardware"

    @property
    def disk(self) -> Path:
        """The mount point of the host's disk image on the machine."""
        return self.folder / "disk"


@dataclass(frozen=True)
class Rack:
    """A requested rack: its spec, its number on this machine and its image layers.

    ``tag`` is the name of its bridge, containers and rules. It contains the number, because
    another root directory of this machine may have a rack of the same name.
    """

    spec: RackSpec
    index: int
    tag: str
    layers: dict[str, str] = field(default_factory=dict)
    hardware: Hardware = field(default_factory=Hardware)
    of_hosts: dict[str, Hardware] = field(default_factory=dict)
    """Hardware of GPU hosts that differ."""

    def hardware_of(self, host: str) -> Hardware:
        """The hardware of a host."""
        return self.of_hosts.get(host, self.hardware)

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def state_dir(self) -> Path:
        return folder_of(self.name)

    @property
    def site_dir(self) -> Path:
        """The complete site folder: site.yml, known_hosts, id_ed25519, secrets/."""
        return self.state_dir / "site"

    @property
    def access_dir(self) -> Path:
        """Folder of the key and pinned host keys of ``appliance lab shell``. Plain hosts belong to no site."""
        return self.state_dir / "account" if self.spec.plain else self.site_dir

    @property
    def network(self) -> IPv4Network:
        return network_of(self.index, _second(self.spec))

    @property
    def gateway(self) -> IPv4Address:
        return self.network.network_address + 1

    @property
    def bridge(self) -> str:
        """The bridge's name; the kernel allows 15 characters."""
        return f"lab-{self.tag}"[:15].rstrip("-")

    @property
    def table(self) -> str:
        """The rack's own nftables table."""
        return TABLES + self.tag.replace("-", "_")

    @property
    def fabric_port(self) -> int:
        """First of the UDP ports of the rack's fabric simulator, which takes eleven."""
        return 7070 + 16 * self.index

    @property
    def hosts(self) -> tuple[RackHost, ...]:
        if self.spec.members:
            return tuple(self._member(member) for member in self.spec.members)
        control = self.spec.control
        heads = ("head", *(f"head-{n}" for n in range(2, control + 1)))
        names = (*heads, *(f"gpu-{n}" for n in range(1, self.spec.hosts - control + 1)))
        if self.spec.plain:
            names = ("node-a17", *(f"node-b{n:02}" for n in range(3, self.spec.hosts + 2)))
        return tuple(self._host(number, name) for number, name in enumerate(names))

    @property
    def virtual_address(self) -> IPv4Address | None:
        """The address that several control planes share."""
        return self.network.network_address + 9 if self.spec.control > 1 else None

    def host(self, name: str) -> RackHost:
        """The host called ``name``. Raises ConfigError."""
        for host in self.hosts:
            if host.name == name:
                return host
        known = ", ".join(host.name for host in self.hosts)
        raise ConfigError(f'no host "{name}" in rack {self.name}', f"it has {known}")

    def _host(self, number: int, name: str) -> RackHost:
        return RackHost(
            name=name,
            roles=self._roles(number),
            address=str(self.network.network_address + self._first_address + number),
            machine=f"{self.tag}-{name}",
            folder=self.state_dir / "hosts" / name,
        )

    def _member(self, member: Member) -> RackHost:
        return RackHost(
            name=member.name,
            roles=member.roles,
            address=str(self.network.network_address + member.number),
            # The kernel allows names of 64 characters.
            machine=f"{self.tag}-{member.number}",
            folder=self.state_dir / "hosts" / member.name,
        )

    @property
    def _first_address(self) -> int:
        return 41 if self.spec.plain else 10

    def _roles(self, number: int) -> tuple[str, ...]:
        if not number:
            return ("control", "storage", "login")
        return ("control",) if number < self.spec.control else ("gpu",)


def complete(wanted: RackSpec) -> RackSpec:
    """The rack that has every stage of the mission: Kubernetes with queues, and hosts of Slurm to compare with."""
    return replace(
        wanted, hosts=COMPLETE_HOSTS, kubernetes=True, slurm=COMPLETE_SLURM, complete=True
    )


SECONDS = (77, 93, 94)
"""The second number of a rack's network: hosts of the rack's own image, plain ones, virtual machines."""


def _second(spec: RackSpec) -> int:
    return SECONDS[2 if spec.is_virtual else int(bool(spec.plain))]


def network_of(index: int, second: int) -> IPv4Network:
    """The network of the rack with this number. ``second``: one of SECONDS."""
    return IPv4Network(f"10.{second}.{index}.0/24")


def numbered(
    spec: RackSpec,
    index: int,
    layers: dict[str, str],
    hardware: Hardware | None = None,
    classes: Mapping[str, Hardware] = MappingProxyType({}),
) -> Rack:
    """A new rack with a number no other has. ``classes``: what GPU hosts have, by their class."""
    rack = Rack(spec, index, f"r{index}-{spec.name}", layers, hardware or Hardware())
    gpu_hosts = (host.name for host in rack.hosts if host.is_gpu)
    of_hosts = {h: classes[name] for h, name in zip(gpu_hosts, spec.class_of_each, strict=False)}
    fewer = {member.name: member.gpus for member in spec.members if member.gpus}
    of_hosts |= {h: replace(of_hosts[h], gpus=count) for h, count in fewer.items()}
    return replace(rack, of_hosts=of_hosts)


def save(rack: Rack) -> None:
    """Write the rack down, whole or not at all, before anything of it is made."""
    rack.state_dir.mkdir(parents=True, exist_ok=True)
    target = rack.state_dir / "rack.json"
    fresh = target.with_suffix(".new")
    fresh.write_text(json.dumps(asdict(rack), indent=1), encoding="utf-8")
    fresh.rename(target)


def load(name: str) -> Rack | None:
    """The rack called ``name`` as requested, None if there is none. Raises ConfigError."""
    return read(folder_of(name) / "rack.json")


def read(file: Path) -> Rack | None:
    """A rack from its rack.json, None where that is missing."""
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    asked = data["spec"]
    asked["members"] = tuple(
        Member(**_known(Member, one | {"roles": tuple(one["roles"])}))
        for one in asked.get("members", ())
    )
    return Rack(
        _standing(_known(RackSpec, asked)),
        data["index"],
        data["tag"],
        data["layers"],
        Hardware(**_known(Hardware, data.get("hardware", {}))),
        {
            name: Hardware(**_known(Hardware, given))
            for name, given in data.get("of_hosts", {}).items()
        },
    )


class _Standing(RackSpec):
    """A rack that another version let be raised, and this one would not: its number is taken all the same."""

    def __post_init__(self) -> None:
        """Refuses nothing."""


def _standing(values: Mapping[str, Any]) -> RackSpec:
    try:
        return RackSpec(**values)
    except ConfigError:
        return _Standing(**values)


def _known(kind: type, values: Mapping[str, object]) -> dict[str, Any]:
    """The values that this version knows: a rack of another version must not stop us."""
    names = {f.name for f in fields(kind)}
    return {name: value for name, value in values.items() if name in names}


def racks() -> tuple[Rack, ...]:
    """Every rack of this machine, by name."""
    found = (read(file) for file in sorted(STATE_ROOT.glob("*/rack.json")))
    return tuple(rack for rack in found if rack)
