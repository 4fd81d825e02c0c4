"""The archive of a support bundle: a .tar.gz that is written whole or not at all, and read as another's file."""

import errno
import gzip
import io
import os
import stat
import tarfile
import tempfile
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from appliance.errors import ConfigError
from appliance.text import quoted

PIECE = 1 << 20
LARGEST, MOST_IN_ALL, MOST_FILES = 64 << 20, 512 << 20, 4096
"""Bytes of one file that is read, and of all; number of files."""
LEVEL = 6


class Writer:
    """Files of one folder in the archive. Thread-safe."""

    def __init__(self, tar: tarfile.TarFile, top: str) -> None:
        self._tar, self._top = tar, top
        self._lock = threading.Lock()

    def add(self, name: str, text: str) -> int:
        """Adds a file and returns its size in bytes."""
        octets = text.encode("utf-8", "replace")
        info = tarfile.TarInfo(f"{self._top}/{name}")
        info.size, info.mode = len(octets), 0o600
        with self._lock:
            self._tar.addfile(info, io.BytesIO(octets))
        return len(octets)


@contextmanager
def writing(path: Path, top: str) -> Iterator[Writer]:
    """An archive of mode 0600, under its name once the block has ended. An existing file is kept.

    Raises ConfigError if the name is taken or the folder cannot be written.
    """
    if os.path.lexists(path):
        raise _exists_error(path)
    try:
        number, part = tempfile.mkstemp(prefix=".support-bundle-", dir=path.parent)
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be written ({error.strerror})",
            "name a file in a folder that you own with --output",
        ) from None
    try:
        with os.fdopen(number, "wb") as sink:
            with tarfile.open(fileobj=sink, mode="w:gz", compresslevel=LEVEL) as tar:
                yield Writer(tar, top)
            sink.flush()
            os.fsync(sink.fileno())
        _name(part, path)
    finally:
        with suppress(OSError):
            os.unlink(part)  # noqa: PTH108 - as mkstemp names it


def _name(part: str, path: Path) -> None:
    """Never replaces a file: a link fails if there is one. File systems without links get a name that is claimed first."""
    try:
        os.link(part, path)
    except FileExistsError:
        raise _exists_error(path) from None
    except OSError:
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600))
        except FileExistsError:
            raise _exists_error(path) from None
        os.replace(part, path)  # noqa: PTH105


def _exists_error(path: Path) -> ConfigError:
    return ConfigError(f"{path} already exists", "name another file with --output")


def first_files(path: Path, folder: str) -> dict[str, bytes]:
    """The files of this folder at the beginning of the archive, by their name below it; nothing after them is unpacked.

    Raises ConfigError for anything that ``writing`` does not write.
    """
    found: dict[str, bytes] = {}
    try:
        with _opened(path) as file, gzip.GzipFile(fileobj=file) as source:
            bounded = _Bounded(source)
            with tarfile.open(fileobj=bounded, mode="r:") as tar:  # type: ignore[call-overload]
                for info in tar:
                    name = _name_below(path, info, folder)
                    if not name:
                        break
                    if name in found or len(found) >= MOST_FILES:
                        raise _foreign(
                            path, f"{quoted(name)} is in it twice, or it has too many files"
                        )
                    found[name] = _content(path, tar, info)
    except (gzip.BadGzipFile, zlib.error, tarfile.TarError) as error:
        raise _foreign(path, str(error)) from None
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be read ({error.strerror or error})",
            "name the archive of a support bundle",
        ) from None
    except (EOFError, ValueError, OverflowError, RecursionError) as error:
        raise _foreign(path, str(error) or type(error).__name__) from None
    return found


def _opened(path: Path) -> BinaryIO:
    """The file, opened without waiting for a writer. Raises OSError if it is not a regular file."""
    number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    file = os.fdopen(number, "rb") if stat.S_ISREG(os.fstat(number).st_mode) else None
    if file is None:
        os.close(number)
        raise OSError(errno.EINVAL, "it is not a regular file")
    return file


class _Bounded:
    """Unpacked bytes of an archive: neither one piece nor all of them together exceed the limits."""

    def __init__(self, source: gzip.GzipFile) -> None:
        self._source = source
        self.tell = source.tell

    def read(self, size: int) -> bytes:
        """Raises ReadError for a piece or an archive that is too large."""
        if not 0 <= size <= PIECE or self.tell() + size > MOST_IN_ALL:
            raise tarfile.ReadError("it is larger than a bundle")
        return self._source.read(size)

    def seek(self, offset: int, whence: int = 0) -> int:
        """Raises ReadError beyond the limit."""
        if offset > MOST_IN_ALL:
            raise tarfile.ReadError("it is larger than a bundle")
        return self._source.seek(offset, whence)


def _name_below(path: Path, info: tarfile.TarInfo, folder: str) -> str:
    """The name within ``folder``; "" for a file elsewhere. Raises ConfigError for links, and names that lead elsewhere."""
    parts = PurePosixPath(info.name).parts
    is_plain = info.name.isprintable() and os.fspath(PurePosixPath(info.name)) == info.name
    if not info.isreg() or info.sparse is not None or info.size < 0:
        raise _foreign(path, f"{quoted(info.name)} is not a regular file")
    if len(parts) < 2 or ".." in parts or info.name.startswith("/") or not is_plain:
        raise _foreign(path, f"{quoted(info.name)} is not a name within one folder")
    if parts[1] != folder:
        return ""
    if info.size > LARGEST:
        raise _foreign(path, f"{quoted(info.name)} has {info.size:,} bytes")
    return "/".join(parts[2:])


def _content(path: Path, tar: tarfile.TarFile, info: tarfile.TarInfo) -> bytes:
    source = tar.extractfile(info)
    assert source is not None
    parts = []
    while part := source.read(PIECE):
        parts.append(part)
    return b"".join(parts)


def _foreign(path: Path, why: str) -> ConfigError:
    return ConfigError(
        f"{path} is not a support bundle: {why}", "use the file as support-bundle wrote it"
    )
