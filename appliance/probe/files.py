"""The one door to the host's small files, by the way that places.py judges; os-level calls, because pathlib alone costs 15 ms of CPU."""

from __future__ import annotations

import os

from appliance.probe import places

TYPE_CHECKING = False
if TYPE_CHECKING:
    pass

LIMIT = 8 << 20
"""Bytes read of one file at most; nothing in /proc, /sys or /etc that is asked for is larger."""


def data(path: str, limit: int = LIMIT, of: int | None = None) -> bytes:
    """Content of a regular file, at most ``limit`` bytes; ``of``: whose place it may be besides root's. Raises OSError."""
    fd = places.opened(path, of)
    try:
        parts = []
        while limit > 0:
            part = os.read(fd, min(limit, 1 << 20))
            if not part:
                break
            parts.append(part)
            limit -= len(part)
        return b"".join(parts)
    finally:
        os.close(fd)


def read(path: str, limit: int = LIMIT, of: int | None = None) -> str:
    """Text of a file, undecodable bytes replaced. Raises OSError."""
    return data(path, limit, of).decode("utf-8", "replace")


def text(path: str, default: str = "") -> str:
    """Stripped text of a file, ``default`` where it cannot be read."""
    try:
        return read(path).strip()
    except OSError:
        return default


def number(path: str) -> int | None:
    """The integer in a file (decimal or 0x), None if there is none."""
    try:
        return int(text(path), 0)
    except ValueError:
        return None


def names(path: str) -> list[str]:
    """Sorted names in a folder, none where it is not there or closed to us."""
    try:
        return listing(path)
    except OSError:
        return []


def listing(path: str) -> list[str]:
    """Sorted names in a folder. Raises OSError."""
    return places.listed(path)


def link(path: str) -> str | None:
    """The target of a symbolic link, None for other files."""
    try:
        return places.target(path)
    except OSError:
        return None


def exists(path: str) -> bool:
    """Whether something, even a broken link, is there. Raises OSError where that is hidden."""
    try:
        places.status(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def real(path: str) -> str:
    """The path with all symbolic links resolved."""
    return os.path.realpath(path)
