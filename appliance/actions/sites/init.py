"""Init: writes the folder of a new site, complete except for what only its owner knows."""

import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from importlib.resources import files
from ipaddress import IPv4Address, IPv4Network
from os.path import relpath
from pathlib import Path
from types import MappingProxyType
from typing import Any

from appliance.actions.sites.machine_list import ListedHost, MachineList
from appliance.adapters import process
from appliance.config.finding import InvalidConfig, printable
from appliance.config.load import LoadedSite, load_profile, load_site
from appliance.config.new_secrets import write_secrets
from appliance.config.template import filled
from appliance.errors import CommandFailed, ConfigError
from appliance.models.profile import Profile
from appliance.models.text_types import HOST_NAME
from appliance.text import plural

TEMPLATE = files("appliance.config") / "templates/site.yml.j2"
FIRST_HOST = 10
BMC_PASSWORD = "BMC_PASSWORD"
"""Variable with the password of listed BMCs: no list contains passwords."""
IGNORED = (
    "# Nothing secret, and no journal, goes into version control.\nsecrets/\nruns/\nkubeconfig\n"
)


@dataclass(frozen=True)
class Seat:
    """A host of the new site."""

    name: str
    roles: tuple[str, ...]
    address: IPv4Address
    hardware_class: str = ""
    owner: str = ""
    listed: ListedHost | None = None


def init(
    folder: Path,
    hosts: int,
    profile: str,
    name: str | None,
    network: IPv4Network,
    *,
    kubernetes: bool = True,
    slurm: bool = False,
    classes: Mapping[str, int] = MappingProxyType({}),
    machines: MachineList | None = None,
) -> LoadedSite:
    """Writes a site of ``hosts`` machines into ``folder``, and loads it again.

    ``kubernetes``: with a cluster, KAI and two example projects; ``slurm``: with Slurm, which next to a cluster gets the last
    of several GPU hosts; ``classes``: the GPU hosts by class, instead of ``hosts``; ``machines``: all hosts, instead of both.
    Raises ConfigError: folder in use, too many hosts for the network or a profile, an invalid name, no scheduler at all, and
    InvalidConfig with a finding for each row of ``machines`` that no site can have.
    """
    if not (kubernetes or slurm):
        raise ConfigError(
            "no scheduler is left to use the GPU hosts",
            "add --with slurm, or remove --without kubernetes",
        )
    chosen = {one: load_profile(one) for one in dict.fromkeys((profile, *classes))}
    if machines:
        chosen |= _listed_classes(machines)
        seats = tuple(_listed_seat(one, profile) for one in machines.hosts)
        network = machines.network or network
    elif classes:
        of_class = [one for one, count in classes.items() for _ in range(count)]
        named = [one if one != profile else "" for one in (profile, *of_class)]
        seats = _seats(len(named), network)
        seats = tuple(replace(s, hardware_class=one) for s, one in zip(seats, named, strict=True))
        _refuse_counts(classes, chosen)
    else:
        seats = _seats(hosts, network)
        _refuse_count(hosts, chosen[profile])
    if kubernetes and slurm and len(seats) > 2:
        last = max(i for i, seat in enumerate(seats) if "gpu" in seat.roles)
        seats = tuple(replace(s, owner="slurm") if i == last else s for i, s in enumerate(seats))
    site_name = _name(folder, name)
    _refuse_used(folder)
    with _built_beside(folder) as draft:
        secrets = write_secrets(draft / "secrets", slurm=slurm, kubernetes=kubernetes)
        _key_pair(draft / "secrets/id_ed25519", site_name)
        (draft / ".gitignore").write_text(IGNORED, encoding="utf-8")
        values = {
            "name": site_name,
            "folder": shlex.quote(os.fspath(folder)),
            "profile": _profile_reference(profile, folder),
            "network": network,
            "gateway": network.network_address + 1,
            "hosts": seats,
            "secrets": [file.name for file in secrets],
            "slurm": slurm,
            "kubernetes": kubernetes,
            "several": any(seat.hardware_class for seat in seats),
            "gpu_host": next((seat.name for seat in seats if "gpu" in seat.roles), "gpu-1"),
            "cables": machines.cables if machines else (),
            "bmc_password": BMC_PASSWORD,
            **_queues([chosen[s.hardware_class or profile] for s in seats if _in_cluster(s)]),
        }
        # Validated in a temporary folder inside the site's, where relative paths differ.
        (draft / "site.yml").write_text(_render(values, _absolute), encoding="utf-8")
        _refuse_unsound(draft, profile, machines)
        (draft / "site.yml").write_text(
            _render(values, lambda one: _profile_reference(one, folder)), encoding="utf-8"
        )
    return load_site(folder)


def _seats(hosts: int, network: IPv4Network) -> tuple[Seat, ...]:
    # Compared as numbers: there is no address after 255.255.255.255.
    if int(network.network_address) + FIRST_HOST + hosts > int(network.broadcast_address):
        raise ConfigError(
            f"{network} has too few addresses for {hosts} hosts after its first {FIRST_HOST} addresses",
            "use a larger --network",
        )
    first = network.network_address + FIRST_HOST
    head = ("control", "storage", "login") if hosts > 1 else ("control", "gpu", "storage", "login")
    gpus = (Seat(f"gpu-{i}", ("gpu",), first + i) for i in range(1, hosts))
    return (Seat("head", head, first), *gpus)


def _in_cluster(seat: Seat) -> bool:
    """Whether the cluster has its GPUs."""
    return "gpu" in seat.roles and not seat.owner


def _queues(hosts: Sequence[Profile]) -> dict[str, object]:
    """Two example projects, each guaranteed half of the GPUs of these hosts, and all of them while they are idle."""
    gpus = sum(profile.hardware.gpu.count for profile in hosts)
    half = gpus // 2
    projects = [
        {"name": "vision", "user": "alice", "quota": gpus - half},
        {"name": "language", "user": "bob", "quota": half},
    ]
    return {"gpus": gpus, "projects": projects}


def _refuse_count(hosts: int, profile: Profile) -> None:
    gpu_hosts = max(1, hosts - 1)
    low, high = profile.gpu_hosts.minimum, profile.gpu_hosts.maximum
    if not low <= gpu_hosts <= high:
        raise ConfigError(
            f"--count {hosts} gives {plural(gpu_hosts, 'GPU host')}, but profile {profile.name} supports {low} to {high}",
            "change --count, or gpu_hosts in a profile of your own",
        )


def _refuse_counts(classes: Mapping[str, int], profiles: Mapping[str, Profile]) -> None:
    for name, count in classes.items():
        low, high = profiles[name].gpu_hosts.minimum, profiles[name].gpu_hosts.maximum
        if not low <= count <= high:
            raise ConfigError(
                f"--gpu-hosts {name}={count}: profile {profiles[name].name} supports {low} to {high} GPU hosts",
                "change the number of GPU hosts, or gpu_hosts in a profile of your own",
            )


def _name(folder: Path, name: str | None) -> str:
    chosen = name or re.sub(r"[^a-z0-9-]+", "-", folder.resolve().name.lower()).strip("-")
    if not re.fullmatch(HOST_NAME, chosen):
        raise ConfigError(
            f'"{chosen}" is not a valid name of a site',
            'give --name with lower-case letters, digits and "-"',
        )
    return chosen


def _listed_classes(machines: MachineList) -> dict[str, Profile]:
    """The profiles that hosts of a list name. Raises InvalidConfig at the first row with an unusable one."""
    found: dict[str, Profile] = {}
    for one, row in zip(machines.hosts, machines.host_rows, strict=True):
        name = one.hardware_class
        if name is None or name in found:
            continue
        try:
            found[name] = load_profile(name)
        except ConfigError as error:
            problem = str(error).splitlines()[-1].strip()
            remedy = error.hint or "choose one of: appliance profile list"
            raise InvalidConfig([row.finding("class", f"{name}: {problem}", remedy)]) from None
    return found


def _listed_seat(one: ListedHost, profile: str) -> Seat:
    own = one.hardware_class if one.hardware_class != profile else None
    return Seat(one.name, one.roles, one.address, own or "", listed=one)


def _refuse_unsound(draft: Path, profile: str, machines: MachineList | None) -> None:
    """The new site must be valid; otherwise it is not written, and the command can be repeated."""
    try:
        load_site(draft, profile)
    except InvalidConfig as error:
        if machines:
            raise machines.at_rows(error.findings) from None
        problem = next(f for f in error.findings if f.level == "problem")
        raise ConfigError(f"{problem.key}: {problem.message}", problem.remedy) from None


def _refuse_used(folder: Path) -> None:
    if not os.fspath(folder).isprintable():
        raise ConfigError(
            f"{printable(os.fspath(folder))} contains a control character", "name another folder"
        )
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"{folder} is a file", "name a new or empty folder")
    if folder.is_dir() and any(folder.iterdir()):
        raise ConfigError(f"{folder} is not empty", "name a new or empty folder")


def _absolute(profile: str) -> str:
    return str(Path(profile).resolve()) if _is_file(profile) else profile


def _is_file(profile: str) -> bool:
    return "/" in profile or profile.endswith((".yml", ".yaml"))


def _profile_reference(profile: str, folder: Path) -> str:
    """A name stays a name; a file is written relative to the site's folder."""
    path = Path(profile)
    if not _is_file(profile):
        return profile
    reference = relpath(path.resolve(), folder.resolve())
    return reference if "/" in reference else f"./{reference}"


def _render(values: dict[str, Any], reference: Callable[[str], str]) -> str:
    """``reference``: how a class is named in the site."""
    hosts = [replace(s, hardware_class=reference(s.hardware_class)) for s in values["hosts"]]
    return filled(TEMPLATE.read_text(encoding="utf-8"), **{**values, "hosts": hosts}) + "\n"


def _key_pair(file: Path, site_name: str) -> None:
    process.run(
        (
            "ssh-keygen",
            "-q",
            "-t",
            "ed25519",
            "-N",
            "",
            "-C",
            f"appliance {site_name}",
            "-f",
            str(file),
        ),
        hint="install the OpenSSH client (package openssh-client or openssh-clients)",
    )
    file.chmod(0o600)


@contextmanager
def _built_beside(folder: Path) -> Iterator[Path]:
    """A draft that becomes ``folder`` when complete, and is removed otherwise."""
    made = [place for place in (folder, *folder.parents) if not os.path.lexists(place)]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=".appliance-init-", dir=folder))
    except OSError as error:
        _unmake(made)
        raise ConfigError(
            f"{folder} cannot be written ({error.strerror})", "check free space, owner and mode"
        ) from None
    try:
        yield draft
        for part in draft.iterdir():
            part.rename(folder / part.name)
    except OSError as error:
        raise CommandFailed(
            f"{folder}: {error.strerror}", "check free space, owner and mode"
        ) from None
    finally:
        shutil.rmtree(draft, ignore_errors=True)
        _unmake(made)


def _unmake(made: Sequence[Path]) -> None:
    """Folders that were created for a site, the innermost first; non-empty ones are kept."""
    with suppress(OSError):
        for folder in made:
            folder.rmdir()
