"""Init: writes the folder of a new site, complete but for what only its owner knows."""

import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.resources import files
from ipaddress import IPv4Address, IPv4Network
from os.path import relpath
from pathlib import Path

from appliance.adapters import process
from appliance.config.finding import InvalidConfig, printable
from appliance.config.fresh import write_cluster_key, write_secrets
from appliance.config.load import LoadedSite, load_profile, load_site
from appliance.config.template import filled
from appliance.errors import CommandFailed, ConfigError
from appliance.models.profile import Profile
from appliance.models.texts import HOST_NAME
from appliance.text import plural

TEMPLATE = files("appliance.config") / "templates/site.yml.j2"
FIRST_HOST = 10
IGNORED = (
    "# Nothing secret, and no journal, goes into version control.\nsecrets/\nruns/\nkubeconfig\n"
)


@dataclass(frozen=True)
class Seat:
    """A host of the new site."""

    name: str
    roles: tuple[str, ...]
    address: IPv4Address


def init(
    folder: Path,
    hosts: int,
    profile: str,
    name: str | None,
    network: IPv4Network,
    *,
    kubernetes: bool = False,
) -> LoadedSite:
    """Write a site of ``hosts`` machines into ``folder``, and load it again. ``kubernetes``: with a cluster.

    Raises ConfigError: folder in use, too many hosts for the network or the profile, an unusable name.
    """
    chosen = load_profile(profile)
    seats = _seats(hosts, network)
    _refuse_count(hosts, chosen)
    site_name = _name(folder, name)
    _refuse_used(folder)
    with _built_beside(folder) as draft:
        secrets = write_secrets(draft / "secrets")
        if kubernetes:
            secrets = (*secrets, write_cluster_key(draft / "secrets"))
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
            "kubernetes": kubernetes,
        }
        (draft / "site.yml").write_text(_render(values), encoding="utf-8")
        _refuse_unsound(draft, profile)
    return load_site(folder)


def _seats(hosts: int, network: IPv4Network) -> tuple[Seat, ...]:
    # Counted as numbers: there is no address behind 255.255.255.255 to compare with.
    if int(network.network_address) + FIRST_HOST + hosts > int(network.broadcast_address):
        raise ConfigError(
            f"{network} has no room for {hosts} hosts behind its first {FIRST_HOST} addresses",
            "give a larger --network",
        )
    first = network.network_address + FIRST_HOST
    head = ("control", "storage", "login") if hosts > 1 else ("control", "gpu", "storage", "login")
    gpus = (Seat(f"gpu-{i}", ("gpu",), first + i) for i in range(1, hosts))
    return (Seat("head", head, first), *gpus)


def _refuse_count(hosts: int, profile: Profile) -> None:
    gpu_hosts = max(1, hosts - 1)
    low, high = profile.gpu_hosts.minimum, profile.gpu_hosts.maximum
    if not low <= gpu_hosts <= high:
        raise ConfigError(
            f"--hosts {hosts} gives {plural(gpu_hosts, 'GPU host')}, profile {profile.name} is for {low} to {high}",
            "change --hosts, or gpu_hosts in a profile of your own",
        )


def _name(folder: Path, name: str | None) -> str:
    chosen = name or re.sub(r"[^a-z0-9-]+", "-", folder.resolve().name.lower()).strip("-")
    if not re.fullmatch(HOST_NAME, chosen):
        raise ConfigError(
            f'"{chosen}" cannot name a site', 'give --name with lower-case letters, digits and "-"'
        )
    return chosen


def _refuse_unsound(draft: Path, profile: str) -> None:
    """What was asked for makes a site that can be used; else it is not written, and may be asked for anew."""
    try:
        load_site(draft, profile)
    except InvalidConfig as error:
        problem = next(f for f in error.findings if f.level == "problem")
        raise ConfigError(f"{problem.key}: {problem.message}", problem.remedy) from None


def _refuse_used(folder: Path) -> None:
    if not os.fspath(folder).isprintable():
        raise ConfigError(
            f"{printable(os.fspath(folder))} holds a control character", "name another folder"
        )
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"{folder} is a file", "name a folder that is new or empty")
    if folder.is_dir() and any(folder.iterdir()):
        raise ConfigError(f"{folder} is not empty", "name a folder that is new or empty")


def _profile_reference(profile: str, folder: Path) -> str:
    """A name stays a name; a file is written relative to the site's folder."""
    path = Path(profile)
    if "/" not in profile and not profile.endswith((".yml", ".yaml")):
        return profile
    reference = relpath(path.resolve(), folder.resolve())
    return reference if "/" in reference else f"./{reference}"


def _render(values: dict[str, object]) -> str:
    return filled(TEMPLATE.read_text(encoding="utf-8"), **values) + "\n"


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
    """A draft that becomes ``folder`` when complete, and leaves nothing behind when not."""
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
    """Folders that were made for a site, the innermost first; those that hold something stay."""
    with suppress(OSError):
        for folder in made:
            folder.rmdir()
