"""The manifest of a bundle: each file with its digest, and what the site needs but the bundle lacks."""

import hashlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from appliance.config.bounded_files import TooLarge, read_bytes
from appliance.errors import ApplianceError, ConfigError
from appliance.models.base import Model
from appliance.models.line import Line, line
from appliance.ownership import write_anew

NAME = "bundle.json"
STAGING = ".partial"
LARGEST = 64 << 20
BLOCK = 1 << 20
PART = r"[A-Za-z0-9_+][A-Za-z0-9._+~:%=@-]*"
"""No part begins with a dot: neither "..", nor a hidden file."""
FETCH = "name the folder that appliance bundle fetch wrote, or fetch it again"

Kind = Literal["package", "index", "key", "wheel", "program", "lock"]


class BundleFile(Model):
    """One file. ``path``: relative to the bundle. ``of``: the system of the hosts, or Python's release."""

    path: str = Field(pattern=rf"^{PART}(/{PART})*$", max_length=1024)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    bytes: int = Field(ge=0)
    kind: Kind
    name: Line
    version: Line = ""
    of: Line = ""


class Lacking(Model):
    """Something that the site needs, or may need, and the bundle does not contain."""

    kind: Line
    name: Line
    why: Line


class Earlier(Model):
    """The bundle that a delta is based on. ``digest``: of its manifest; ``paths``: files that only it contains."""

    digest: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    paths: tuple[str, ...]


class Manifest(Model):
    """The content of a bundle. ``dropped``: files of the bundle before that are no longer part of it."""

    version: Literal[1] = 1
    site: Line
    made: Line = Field(description="Time of the download, UTC")
    appliance: Line
    complete: bool = Field(description="False while files are being downloaded")
    systems: tuple[Line, ...]
    files: tuple[BundleFile, ...]
    lacking: tuple[Lacking, ...] = ()
    since: Earlier | None = None
    dropped: tuple[str, ...] = ()

    @property
    def bytes(self) -> int:
        """Size of all files."""
        return sum(file.bytes for file in self.files)


@dataclass(frozen=True)
class Difference:
    """A file that is not as the manifest says. ``what``: "missing", "changed" or "extra"."""

    path: str
    what: str
    why: str = ""


@dataclass(frozen=True)
class Verified:
    """The result of a verification. ``is_delta``: every file of the earlier bundle is missing, and no other."""

    manifest: Manifest
    digest: str
    differences: tuple[Difference, ...]
    is_delta: bool = False


def read(place: Path) -> tuple[Manifest, str]:
    """The manifest of a bundle's folder, or in that file, with its digest. Raises ConfigError."""
    file = place / NAME if place.is_dir() else place
    try:
        content = read_bytes(file, LARGEST)
        found = Manifest.model_validate_json(content)
    except FileNotFoundError:
        what = f"contains no {NAME}" if place.is_dir() else "does not exist"
        raise ConfigError(f"{place} {what}: it is no bundle", FETCH) from None
    except (OSError, TooLarge) as error:
        raise ConfigError(f"{file} cannot be read ({error})", "check its owner and mode") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise ConfigError(
            f"{file} is damaged: {where}: {first['msg']}", "copy the bundle again"
        ) from None
    return found, hashlib.sha256(content).hexdigest()


def write(folder: Path, manifest: Manifest) -> str:
    """Writes the manifest, whole or not at all; returns its digest."""
    text = manifest.model_dump_json(indent=1) + "\n"
    write_anew(folder / NAME, text)
    return hashlib.sha256(text.encode()).hexdigest()


def require_complete(folder: Path, manifest: Manifest) -> None:
    """Raises ApplianceError if the download of this bundle was interrupted."""
    if not manifest.complete:
        raise ApplianceError(
            f"{folder}: the download was interrupted, so files are missing",
            "the command that fetched it continues the download",
        )


def opened(folder: Path, path: str) -> BufferedReader:
    """Opens a file of the bundle. No link below the folder is followed. Raises OSError."""
    *parents, name = path.split("/")
    at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for parent in parents:
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            below = os.open(parent, flags, dir_fd=at)
            os.close(at)
            at = below
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        number = os.open(name, flags, dir_fd=at)
    finally:
        os.close(at)
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise FileNotFoundError(f"{path} is not a regular file")
    return os.fdopen(number, "rb")


def digest_of(folder: Path, path: str) -> str:
    """SHA-256 of a file of the bundle. Raises OSError."""
    found = hashlib.sha256()
    with opened(folder, path) as content:
        while block := content.read(BLOCK):
            found.update(block)
    return found.hexdigest()


def is_there(folder: Path, file: BundleFile) -> bool:
    """Whether the folder contains exactly this file."""
    return _judged(folder, file) is None


def verify(folder: Path) -> Verified:
    """Compares each file with the manifest. Raises ConfigError without a manifest, ApplianceError for an interrupted download."""
    manifest, digest = read(folder)
    require_complete(folder, manifest)
    found = [d for d in (_judged(folder, file) for file in manifest.files) if d]
    earlier = set(manifest.since.paths) if manifest.since else set()
    is_delta = bool(earlier) and {d.path for d in found if d.what == "missing"} >= earlier
    if is_delta:
        found = [d for d in found if d.path not in earlier]
    known = {NAME, *manifest.dropped, *(file.path for file in manifest.files)}
    extra = [
        Difference(line(path), "extra") for path in sorted(_paths(folder)) if path not in known
    ]
    return Verified(manifest, digest, (*found, *extra), is_delta)


def _judged(folder: Path, file: BundleFile) -> Difference | None:
    try:
        with opened(folder, file.path) as content:
            size = os.fstat(content.fileno()).st_size
        if size != file.bytes:
            return Difference(file.path, "changed", f"{size} bytes instead of {file.bytes}")
        if digest_of(folder, file.path) != file.sha256:
            return Difference(file.path, "changed", "its digest differs")
    except FileNotFoundError:
        return Difference(file.path, "missing")
    except OSError as error:
        return Difference(file.path, "changed", error.strerror or str(error))
    return None


def _paths(folder: Path) -> Iterator[str]:
    """Every file and link below the folder; no link is followed. os.walk calls itself for each level (Python 3.11)."""
    left = [folder]
    while left:
        with os.scandir(left.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    left.append(Path(entry.path))
                else:
                    yield os.path.relpath(entry.path, folder)
