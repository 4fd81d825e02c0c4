"""A folder as a tar archive with every byte determined: the same files always give the same archive."""

import hashlib
import os
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from appliance.errors import ApplianceError, ConfigError
from appliance.text import quoted

CHUNK = 1 << 20
LARGEST = 1 << 40
"""Bytes that a member may claim: a hand-over never has more."""


@dataclass(frozen=True)
class Member:
    """A file of an archive: its name below the top folder, the offset of its bytes, and their digest."""

    name: str
    offset: int
    size: int
    sha256: str


@dataclass(frozen=True)
class Contents:
    """The content of a tar archive: one top folder with regular files."""

    path: Path
    top: str
    members: Mapping[str, Member]

    def read(self, name: str, most: int) -> bytes:
        """The bytes of a file. Raises ApplianceError if it does not exist, ConfigError if it has more than ``most``."""
        if name not in self.members:
            raise ApplianceError(
                f"{self.path}: it contains no {name}", "use the archive as it was handed over"
            )
        member = self.members[name]
        if member.size > most:
            raise _foreign(
                self.path, f"{name} has {member.size:,} bytes; at most {most:,} are accepted"
            )
        with self.path.open("rb") as file:
            file.seek(member.offset)
            octets = file.read(member.size)
        if hashlib.sha256(octets).hexdigest() != member.sha256:
            raise _foreign(self.path, f"{name} changed while it was read")
        return octets


def pack(folder: Path, archive: Path) -> None:
    """Writes all files of ``folder`` as a tar archive: sorted, without owners, times and modes of this machine."""
    files = {str(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_file()}
    with (
        archive.open("xb") as sink,
        tarfile.open(fileobj=sink, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for name in sorted(files):
            with files[name].open("rb") as source:
                tar.addfile(_header(f"{folder.name}/{name}", files[name].stat().st_size), source)


def contents(path: Path) -> Contents:
    """Reads an archive. Raises ConfigError for anything that ``pack`` would not write."""
    members: dict[str, Member] = {}
    tops: set[str] = set()
    with _opened(path) as (file, tar):
        for info in tar:
            name = _plain(path, info)
            tops.add(PurePosixPath(info.name).parts[0])
            if name in members:
                raise _foreign(path, f"{quoted(name)} is in it twice")
            digest = _digest(file, info.offset_data, info.size)
            members[name] = Member(name, info.offset_data, info.size, digest)
    if len(tops) != 1:
        raise _foreign(path, f"it has {len(tops)} top folders")
    return Contents(path, tops.pop(), members)


def is_as_written(found: Contents) -> bool:
    """Whether the archive has, byte by byte, the format of ``pack`` for these files, including headers and padding."""
    written = hashlib.sha256()
    with found.path.open("rb") as file:
        whole = hashlib.file_digest(file, "sha256").hexdigest()
        sink = _Hashing(written)
        with tarfile.open(fileobj=sink, mode="w", format=tarfile.PAX_FORMAT) as tar:  # type: ignore[call-overload]
            for name in sorted(found.members):
                member = found.members[name]
                file.seek(member.offset)
                tar.addfile(_header(f"{found.top}/{name}", member.size), file)
    return written.hexdigest() == whole


class _Headers:
    """An archive whose headers contain at most a name, as written by ``pack``."""

    def __init__(self, file: BinaryIO) -> None:
        self.tell, self.seek, self._file = file.tell, file.seek, file

    def read(self, size: int) -> bytes:
        """Raises ReadError for anything larger than a header."""
        if size > CHUNK:
            raise tarfile.ReadError(f"a header of {size:,} bytes")
        return self._file.read(size)


class _Hashing:
    """A file that keeps only the digest of the written data."""

    def __init__(self, digest: "hashlib._Hash") -> None:
        self._digest, self._at = digest, 0

    def write(self, octets: bytes) -> int:
        """Counts them."""
        self._digest.update(octets)
        self._at += len(octets)
        return len(octets)

    def tell(self) -> int:
        """Number of written bytes."""
        return self._at


def _header(name: str, size: int) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.size, info.mode = size, 0o644
    return info


@contextmanager
def _opened(path: Path) -> Iterator[tuple[BinaryIO, tarfile.TarFile]]:
    try:
        if path.exists() and not path.is_file():
            raise _foreign(path, "it is not a regular file")
        with (
            path.open("rb") as file,
            tarfile.open(fileobj=_Headers(file), mode="r:") as tar,  # type: ignore[call-overload]
        ):
            yield file, tar
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be read ({error.strerror or error})", "name the .tar of a hand-over"
        ) from error
    except (tarfile.TarError, EOFError, ValueError) as error:
        raise _foreign(path, str(error)) from error


def _plain(path: Path, info: tarfile.TarInfo) -> str:
    """The name below the top folder. Raises ConfigError for links, devices, and names that lead elsewhere."""
    parts = PurePosixPath(info.name).parts
    if not info.isreg() or not 0 <= info.size <= LARGEST:
        raise _foreign(path, f"{quoted(info.name)} is not a regular file")
    if not info.name.isprintable():
        raise _foreign(path, f"a name in it is not text: {quoted(info.name)}")
    if (
        len(parts) < 2
        or info.name.startswith("/")
        or ".." in parts
        or os.fspath(PurePosixPath(info.name)) != info.name
    ):
        raise _foreign(path, f"{quoted(info.name)} is not a name within one folder")
    return str(PurePosixPath(*parts[1:]))


def _digest(file: BinaryIO, offset: int, size: int) -> str:
    found = hashlib.sha256()
    at = file.tell()
    file.seek(offset)
    left = size
    while left and (octets := file.read(min(CHUNK, left))):
        found.update(octets)
        left -= len(octets)
    file.seek(at)
    return found.hexdigest()


def _foreign(path: Path, why: str) -> ConfigError:
    return ConfigError(f"{path} is not a hand-over: {why}", "use the archive as it was handed over")
