"""Air-gap bundles: what a site downloads, in one folder that is verified before and after its transport."""

import re
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

from pydantic import ValidationError

from appliance import __version__
from appliance.actions.sites import bundle_needs as needs
from appliance.actions.sites.opening import Target, locate, runs_of
from appliance.adapters import installed
from appliance.airgap import download, keys, manifest, wheels
from appliance.airgap.apt import Apt, Deb, Source
from appliance.airgap.download import Tell, Wanted
from appliance.airgap.manifest import BundleFile, Earlier, Lacking, Manifest
from appliance.config import data
from appliance.config.load import LoadedSite
from appliance.errors import ApplianceError, CommandFailed, ConfigError
from appliance.journal import Journal
from appliance.models.facts import HostFacts
from appliance.ownership import require
from appliance.provision.sources import machine_sources
from appliance.stages.base.bundle import place
from appliance.text import first_few

KEYRINGS = {
    "debian": Path("/usr/share/keyrings/debian-archive-keyring.gpg"),
    "ubuntu": Path("/usr/share/keyrings/ubuntu-archive-keyring.gpg"),
}
"""The distributions' keys, of packages debian-archive-keyring and ubuntu-keyring."""
PYTHONS = ("3.11", "3.13")
"""Python of the control machine: Debian 12 and 13."""


@dataclass(frozen=True)
class Row:
    """One line of a plan. ``bytes`` None: unknown before the download."""

    what: str
    of: str
    count: int
    bytes: int | None
    source: str


@dataclass
class Planned:
    """What a bundle of the site would contain.

    ``texts``: files with their content, by path. ``locks``: of the Python packages, by release of Python; pip downloads
    them. ``sources``: addresses by place in the bundle.
    """

    site: str
    systems: tuple[str, ...]
    wanted: dict[str, Wanted] = field(default_factory=dict)
    texts: dict[str, tuple[BundleFile, bytes]] = field(default_factory=dict)
    locks: dict[str, str] = field(default_factory=dict)
    lacking: list[Lacking] = field(default_factory=list)
    sources: dict[str, dict[str, None]] = field(default_factory=dict)

    @property
    def rows(self) -> tuple[Row, ...]:
        """By kind, system and place in the bundle."""
        return tuple(_rows(self))


def planned(target: Target, systems: Sequence[str], tell: Tell) -> Planned:
    """What the site downloads. Reads package lists from the mirrors; writes nothing.

    ``systems``: of the hosts; none: as their last answers say. Raises ConfigError, ApplianceError.
    """
    loaded = locate(target)
    chosen = tuple(dict.fromkeys(systems)) or _known_systems(loaded, target)
    unknown = [system for system in chosen if system not in needs.CODENAMES]
    if unknown:
        raise ConfigError(
            f"a bundle cannot contain packages of {first_few(unknown)}",
            "mirror its repositories in the hall, for example with dnf reposync",
        )
    plan = Planned(loaded.site.name, chosen, lacking=list(needs.lacking(loaded)))
    for system in chosen:
        tell(f"reading the package lists of {system}")
        with _apt(loaded, system, plan) as apt:
            _add_packages(plan, loaded, system, apt)
    for program in needs.programs(loaded.site):
        file = BundleFile(path=program.path, sha256=program.sha256, bytes=0, kind="program", name=program.name)  # fmt: skip
        _add(plan, Wanted(file, program.uri))
        plan.sources[program.path.partition("/")[0]] = {program.uri: None}
    _add_wheels(plan)
    return plan


def fetch(
    target: Target, systems: Sequence[str], folder: Path, since: Path | None, tell: Tell
) -> tuple[Manifest, str]:
    """Downloads the bundle; returns its manifest, and the digest of that. The same call continues an interrupted one.

    ``since``: an earlier bundle, or its manifest; its files are left out. Raises ConfigError, ApplianceError.
    """
    earlier, digest = _earlier(since)
    before = _taken_over(folder)
    plan = planned(target, systems, tell)
    there = {file.path: file for file in earlier.files} if earlier else {}
    left_out = [w.file for w in plan.wanted.values() if _same(there.get(w.file.path), w.file)]
    wanted = [w for w in plan.wanted.values() if w.file not in left_out]
    begun = _begun(plan, before, [w.file for w in wanted])
    manifest.write(folder, begun)
    found = [*download.bring(folder, wanted, tell), *_written(folder, plan)]
    for wheel in wheels.bring(folder, plan.locks, tell):
        if _same(there.get(wheel.path), wheel):
            left_out.append(wheel)
            (folder / wheel.path).unlink()
        else:
            found.append(wheel)
    known = {file.path: file for file in (*found, *(there[f.path] for f in left_out))}
    for path in set(begun.dropped) - {file.path for file in found}:
        (folder / path).unlink(missing_ok=True)
    made = begun.model_copy(
        update={
            "complete": True,
            "files": tuple(known[path] for path in sorted(known)),
            "since": Earlier(digest=digest, paths=tuple(sorted(f.path for f in left_out)))
            if left_out
            else None,
            "dropped": tuple(sorted(set(there) - set(known))),
        }
    )
    download.finish(folder)
    return made, manifest.write(folder, made)


def _earlier(since: Path | None) -> tuple[Manifest | None, str]:
    if since is None:
        return None, ""
    found, digest = manifest.read(since)
    manifest.require_complete(since, found)
    return found, digest


def _same(old: BundleFile | None, new: BundleFile) -> bool:
    return old is not None and old.sha256 == new.sha256


def _taken_over(folder: Path) -> Manifest | None:
    """The manifest that a folder has; a new folder is created. Raises ConfigError for a folder of something else."""
    require(folder)
    try:
        folder.mkdir(exist_ok=True)
        names = {entry.name for entry in folder.iterdir()}
    except OSError as error:
        raise ConfigError(
            f"{folder}: {error.strerror}", "give a folder that can be written, with --to"
        ) from None
    if manifest.NAME in names:
        return manifest.read(folder)[0]
    if names:
        raise ConfigError(
            f"{folder} contains other files, such as {min(names)}",
            f"give a new folder in it: --to {folder / 'bundle'}",
        )
    return None


def _begun(plan: Planned, before: Manifest | None, files: Sequence[BundleFile]) -> Manifest:
    """The manifest during the download. It keeps the names of earlier files, which are removed at the end."""
    old = {*before.dropped, *(file.path for file in before.files)} if before else set()
    return Manifest(
        site=plan.site,
        made=f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
        appliance=__version__,
        complete=False,
        systems=plan.systems,
        files=tuple(files),
        lacking=tuple(plan.lacking),
        dropped=tuple(sorted(old - {file.path for file in files})),
    )


def _written(folder: Path, plan: Planned) -> Iterator[BundleFile]:
    for file, content in plan.texts.values():
        target = folder / file.path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        yield file


def _known_systems(loaded: LoadedSite, target: Target) -> tuple[str, ...]:
    """Systems of the hosts in their last answers. Raises ConfigError if a host never answered."""
    found: dict[str, None] = {}
    runs = runs_of(target)
    if (runs / "journal.sqlite").exists():
        with Journal(runs, needed=False) as journal:
            for host in loaded.site.hosts:
                entry = journal.last("facts", host=host.name)
                found[_release(entry.data) if entry else ""] = None
    if not found or "" in found:
        raise ConfigError(
            "the systems of the hosts are not known here, because not all have answered yet",
            f"name each system, such as --os {next(iter(needs.CODENAMES))}",
        )
    return tuple(found)


def _release(entry: Mapping[str, object]) -> str:
    try:
        return HostFacts.model_validate(entry["facts"]).os.release
    except (ValidationError, KeyError):
        return ""


@contextmanager
def _apt(loaded: LoadedSite, system: str, plan: Planned) -> Iterator[Apt]:
    """apt with the verified lists of all archives of a system."""
    with tempfile.TemporaryDirectory(prefix="appliance-bundle-") as made:
        folder = Path(made)
        sources = [*_distribution(loaded, system), *_third_parties(loaded, system, plan, folder)]
        apt = Apt(folder / "apt", sources)
        apt.update()
        for source in sources:
            plan.sources.setdefault(source.place, {})[source.uri] = None
        for index in apt.indices():
            file = BundleFile(path=index.path, sha256=index.sha256, bytes=index.size, kind="index", name=index.path.rpartition("/")[2], of=system)  # fmt: skip
            if index.content is None:
                _add(plan, Wanted(file, index.uri))
            else:
                plan.texts[file.path] = (file, index.content)
        yield apt


def _distribution(loaded: LoadedSite, system: str) -> Iterator[Source]:
    """The distribution's archives, of the site's mirror or as on this machine."""
    distribution, codename = system.partition("-")[0], needs.CODENAMES[system]
    keyring = KEYRINGS[distribution]
    if not keyring.exists():
        package = "debian-archive-keyring" if distribution == "debian" else "ubuntu-keyring"
        raise ConfigError(f"{keyring} is missing", f"apt-get install {package}")
    base = loaded.site.base
    if base.mirror:
        mirror, security = base.mirror, base.security_mirror or base.mirror
    else:
        mirror, security = _own_archives(distribution, codename)
    parts = needs.COMPONENTS[distribution]
    where = place("distribution", system)
    for uri, suite in ((mirror, codename), (mirror, f"{codename}-updates"), (security, f"{codename}-security")):  # fmt: skip
        yield Source(where, uri.rstrip("/"), suite, parts, keyring)


def _own_archives(distribution: str, codename: str) -> tuple[str, str]:
    """Archive and archive of security updates, by the sources of this machine. Raises ConfigError."""
    remedy = (
        "set base.mirror and base.security_mirror in site.yml to mirrors that this machine reaches"
    )
    if distribution != "debian":
        raise ConfigError(f"base.mirror does not name a mirror of {distribution}", remedy)
    rows = [line.split()[1:3] for line in machine_sources(lambda _: None, codename).lines]
    by_suite = {suite: uri for uri, suite in rows}
    if codename not in by_suite or f"{codename}-security" not in by_suite:
        raise ConfigError(
            "apt on this machine lacks Debian's archive or its security updates", remedy
        )
    return by_suite[codename], by_suite[f"{codename}-security"]


def _third_parties(
    loaded: LoadedSite, system: str, plan: Planned, folder: Path
) -> Iterator[Source]:
    for one in needs.publishers(loaded, system):
        if not one.fingerprint:
            section = one.place.partition("-")[0]
            plan.lacking.append(Lacking(kind="repository", name=one.uri, why=f"the fingerprint of its key is not known: set it in section repositories ({section})"))  # fmt: skip
            continue
        key_uri = f"{one.uri}/{one.key}"
        key = keys.fetched(key_uri, one.fingerprint, folder)
        content = key.read_bytes()
        path = f"{one.place}/{one.key}"
        file = BundleFile(path=path, sha256=sha256(content).hexdigest(), bytes=len(content), kind="key", name=one.key, of=system)  # fmt: skip
        plan.texts[path] = (file, content)
        yield Source(one.place, one.uri, one.suite, one.components, key)


def _add_packages(plan: Planned, loaded: LoadedSite, system: str, apt: Apt) -> None:
    """All lists, each as a host would install it; what is not on offer is noted."""
    lists = tuple(needs.system_lists(loaded, system))
    words = {n for one in lists for entry in one.names for n in entry.split("|")}
    offered = apt.offered(sorted(name for name in words if not name.startswith("?")))
    for one in lists:
        names = _chosen(plan, system, apt, one, offered)
        try:
            found = apt.closure(names) if names else ()
        except CommandFailed:
            found = tuple(_one_by_one(plan, system, apt, names))
        for deb in found:
            _add(plan, Wanted(_entry(deb, system), deb.uri))


def _chosen(
    plan: Planned,
    system: str,
    apt: Apt,
    wanted: needs.PackageList,
    offered: Mapping[str, Sequence[str]],
) -> list[str]:
    """Names as apt takes them: of alternatives the first on offer, in the newest version of the release."""
    found: dict[str, str] = {}
    for entry in wanted.names:
        names = entry.split("|")
        name = next((n for n in names if offered.get(n)), names[0])
        if entry.startswith("?"):
            found[name] = ""
        elif version := next((v for v in offered.get(name, ()) if _is_of(v, wanted.release)), ""):
            found[name] = version if wanted.release else ""
        else:
            release = f" {wanted.release}" if wanted.release else ""
            plan.lacking.append(Lacking(kind="package", name=f"{entry}{release}", why=f"no archive offers it for {system}"))  # fmt: skip
    for name, version in found.items():
        if version:
            apt.pin(wanted.pinned or name, _with_epoch(version) if wanted.pinned else version)
    return [f"{name}={version}" if version else name for name, version in found.items()]


def _is_of(version: str, release: str) -> bool:
    """Whether 3:580.95.05-1 is of 580."""
    wanted = release.removeprefix("v").split(".") if release else []
    return upstream(version).split(".")[: len(wanted)] == wanted


def _with_epoch(version: str) -> str:
    """3:580.95.05 of 3:580.95.05-1: what all packages of a driver have in common."""
    return "".join(version.rpartition(":")[:2]) + upstream(version)


def upstream(version: str) -> str:
    """580.95.05 of 3:580.95.05-1."""
    return re.split(r"[-~+]", version.rpartition(":")[2])[0]


def _one_by_one(plan: Planned, system: str, apt: Apt, names: Sequence[str]) -> Iterator[Deb]:
    """Packages that exclude each other: a host installs one of them."""
    for name in names:
        try:
            yield from apt.closure([name])
        except CommandFailed as error:
            plan.lacking.append(
                Lacking(kind="package", name=name, why=f"{system}: {error.message}")
            )


def _entry(deb: Deb, system: str) -> BundleFile:
    return BundleFile(path=deb.path, sha256=deb.sha256, bytes=deb.size, kind="package", name=deb.name, version=deb.version, of=system)  # fmt: skip


def _add(plan: Planned, wanted: Wanted) -> None:
    """Raises ApplianceError where two archives have different files of one name."""
    known = plan.wanted.setdefault(wanted.file.path, wanted)
    if known.file.sha256 != wanted.file.sha256:
        raise ApplianceError(
            f"{known.uri} and {wanted.uri} differ, but have one place in the bundle",
            "use mirrors of the same state for all hosts",
        )


def _add_wheels(plan: Planned) -> None:
    file = installed.LOCK if installed.LOCK.is_file() else data.root() / "requirements.lock"
    lock = file.read_text(encoding="utf-8")
    plan.locks = {python: wheels.of_python(lock, python) for python in PYTHONS}
    whole, content = wheels.lock_file(lock)
    plan.texts[whole.path] = (whole, content)


def _rows(plan: Planned) -> Iterator[Row]:
    groups: dict[tuple[str, str, str], list[BundleFile]] = defaultdict(list)
    for file in (*(w.file for w in plan.wanted.values()), *(f for f, _ in plan.texts.values())):
        groups[file.kind, file.of, _place(plan, file)].append(file)
    for (kind, system, where), files in sorted(groups.items()):
        size = sum(file.bytes for file in files) if all(file.bytes for file in files) else None
        source = ", ".join(plan.sources.get(where, ())) or "this program"
        yield Row(kind, system, len(files), size, source)
    for python, lock in plan.locks.items():
        yield Row("wheel", f"Python {python}", wheels.count(lock), None, "pip's index")


def _place(plan: Planned, file: BundleFile) -> str:
    """The longest place that the file lies in."""
    found = [where for where in plan.sources if file.path.startswith(f"{where}/")]
    return max(found, key=len, default="")
