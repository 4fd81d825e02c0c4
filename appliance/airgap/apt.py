"""apt with sources and lists of its own: what a fresh host of another release would download."""

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from appliance.adapters.process import run
from appliance.errors import ApplianceError, CommandFailed, ConfigError

UPDATE_SECONDS, ASK_SECONDS = 900.0, 120.0
URI = re.compile(r"^'([^']+)' (\S+) (\d+) SHA256:([0-9a-f]{64})$", re.MULTILINE)
MADISON = re.compile(r"^\s*(\S+)\s+\|\s+(\S+)\s+\|", re.MULTILINE)
ENTRY = re.compile(r"^ ([0-9a-f]{64}) +(\d+) (\S+)$", re.MULTILINE)
TARGETS = ("indextargets", "--format", "$(REPO_URI)|$(RELEASE)|$(METAKEY)|$(FILENAME)", "Created-By: Packages")  # fmt: skip
COMPRESSED = (".xz", ".gz", "")
"""In order of preference: names of an index in an archive."""


@dataclass(frozen=True)
class Source:
    """One archive. ``place``: its folder in the bundle. ``suite`` "/": a flat repository without components. ``keyring``: the only accepted keys."""

    place: str
    uri: str
    suite: str
    components: tuple[str, ...]
    keyring: Path

    @property
    def line(self) -> str:
        """For sources.list."""
        parts = (self.uri, self.suite, *self.components)
        return f"deb [arch=amd64 signed-by={self.keyring}] {' '.join(parts)}"

    def path(self, name: str) -> str:
        """Where a file of the suite lies in the bundle."""
        return f"{self.place}/{name}" if self.suite == "/" else f"{self.place}/dists/{self.suite}/{name}"  # fmt: skip


@dataclass(frozen=True)
class Deb:
    """One package to download. ``path``: in the bundle."""

    path: str
    uri: str
    sha256: str
    size: int
    name: str
    version: str


@dataclass(frozen=True)
class Index:
    """A list of packages; ``content`` is set instead of ``uri`` for the signed list itself, which was verified already."""

    path: str
    uri: str
    sha256: str
    size: int
    content: bytes | None = None


class Apt:
    """Lists and an empty package database in ``folder``. Proxies and certificates are this machine's. Root is not needed."""

    def __init__(self, folder: Path, sources: Sequence[Source]) -> None:
        self._sources, self._folder = sources, folder
        for name in ("lists/partial", "cache/archives/partial"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        for name in ("status", "preferences"):
            (folder / name).touch()
        lines = "".join(f"{source.line}\n" for source in sources)
        (folder / "sources.list").write_text(lines, encoding="utf-8")
        self._options = tuple(word for text in _settings(folder) for word in ("-o", text))

    def update(self) -> None:
        """Fetches the lists and verifies their signatures. Raises ApplianceError."""
        done = self._run("apt-get", "-q", "update", check=False, seconds=UPDATE_SECONDS)
        errors = [line[3:] for line in done.splitlines() if line.startswith("E: ")]
        if errors:
            reasons = [line[3:] for line in done.splitlines() if line.startswith("W: ")]
            raise ApplianceError(
                f"package lists are refused: {(reasons or errors)[0]}",
                "check network, mirror and keys; a wrong signature is never accepted",
            )

    def pin(self, patterns: str, version: str) -> None:
        """Prefers this version of the packages over newer ones."""
        text = f"Package: {patterns}\nPin: version {version}*\nPin-Priority: 1001\n\n"
        with (self._folder / "preferences").open("a", encoding="utf-8") as out:
            out.write(text)

    def offered(self, names: Sequence[str]) -> dict[str, list[str]]:
        """Versions by name, newest first."""
        found: dict[str, list[str]] = {}
        for name, version in MADISON.findall(self._run("apt-cache", "madison", *names)):
            found.setdefault(name, []).append(version)
        return found

    def closure(self, wanted: Sequence[str]) -> tuple[Deb, ...]:
        """The packages with all their dependencies, without recommendations. Raises CommandFailed if they cannot be installed together."""
        said = self._run("apt-get", "-q", "-y", "--no-install-recommends", "--print-uris", "install", *wanted)  # fmt: skip
        return tuple(self._deb(*found) for found in URI.findall(said))

    def indices(self) -> Iterator[Index]:
        """The signed lists, unchanged, and the lists of packages that they name."""
        signed: dict[Path, bytes] = {}
        for row in self._run("apt-get", *TARGETS).splitlines():
            uri, release, key, file = row.split("|")
            source = self._of(uri, release)
            listed = Path(file[: file.rindex(key.replace("/", "_"))] + "InRelease")
            if listed not in signed:
                signed[listed] = _bytes(listed, source)
                digest = hashlib.sha256(signed[listed]).hexdigest()
                yield Index(source.path("InRelease"), "", digest, len(signed[listed]), signed[listed])  # fmt: skip
            yield self._index(source, signed[listed].decode(errors="replace"), key)

    def _index(self, source: Source, listed: str, key: str) -> Index:
        entries = {name.removeprefix("./"): (digest, int(size)) for digest, size, name in ENTRY.findall(listed)}  # fmt: skip
        for ending in COMPRESSED:
            if found := entries.get(key + ending):
                base = source.uri if source.suite == "/" else f"{source.uri}/dists/{source.suite}"
                return Index(source.path(key + ending), f"{base}/{key}{ending}", *found)
        raise ApplianceError(
            f"{source.uri} {source.suite}: its InRelease lists no {key}",
            "name a mirror with the layout of its publisher",
        )

    def _of(self, uri: str, release: str) -> Source:
        """The source of an index; apt writes a flat one as "./" or with an empty suite."""
        for source in self._sources:
            same = source.uri.rstrip("/") == uri.rstrip("/").removesuffix("/.")
            if same and source.suite.strip("./") == release.strip("./"):
                return source
        raise ApplianceError(f"apt reads {uri} {release}, which is no source of this bundle")

    def _deb(self, uri: str, file: str, size: str, digest: str) -> Deb:
        for source in sorted(self._sources, key=lambda one: -len(one.uri)):
            if uri.startswith(f"{source.uri}/"):
                inner = unquote(uri.removeprefix(f"{source.uri}/")).removeprefix("./")
                name, _, rest = unquote(file).partition("_")
                version = rest.rpartition("_")[0]
                return Deb(f"{source.place}/{inner}", uri, digest, int(size), name, version)
        raise ApplianceError(f"apt would download {uri}, which is no source of this bundle")

    def _run(self, *argv: str, check: bool = True, seconds: float = ASK_SECONDS) -> str:
        program, *rest = argv
        try:
            done = run(
                (program, *self._options, *rest), timeout=seconds, check=False, env={"LC_ALL": "C"}
            )
        except CommandFailed as error:
            raise ConfigError(
                f"apt is needed here: {error.message}",
                "run this on a machine with Debian or Ubuntu",
            ) from None
        if check and done.returncode:
            errors = [line[3:] for line in done.stderr.splitlines() if line.startswith("E: ")]
            raise CommandFailed(errors[0] if errors else f"{program} failed with {done.returncode}")
        return done.stdout if check else done.stdout + done.stderr


def _settings(folder: Path) -> tuple[str, ...]:
    """Given as options, they come after this machine's own files."""
    return (
        f"Dir::State={folder}",
        f"Dir::State::status={folder}/status",
        f"Dir::State::lists={folder}/lists",
        f"Dir::Cache={folder}/cache",
        # Images of containers switch both off, and each question would read all lists again.
        "Dir::Cache::pkgcache=pkgcache.bin",
        "Dir::Cache::srcpkgcache=srcpkgcache.bin",
        f"Dir::Etc::sourcelist={folder}/sources.list",
        "Dir::Etc::sourceparts=/dev/null",
        f"Dir::Etc::preferences={folder}/preferences",
        "Dir::Etc::preferencesparts=/dev/null",
        "APT::Architecture=amd64",
        "APT::Architectures=amd64",
        "APT::Update::Error-Mode=any",
        "APT::Sandbox::User=root",
        "APT::Install-Recommends=false",
        "Acquire::Languages=none",
        "Acquire::ForceHash=SHA256",
        "Acquire::Retries=3",
        "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false",
        "Acquire::IndexTargets::deb::CNF::DefaultEnabled=false",
        "Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled=false",
        "Debug::NoLocking=true",
    )


def _bytes(file: Path, source: Source) -> bytes:
    try:
        return file.read_bytes()
    except FileNotFoundError:
        raise ApplianceError(
            f"{source.uri} {source.suite} has no InRelease", "name a mirror that has one"
        ) from None
