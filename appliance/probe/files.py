"""Reads the host's small files, on paths that places.py judges; uses os-level calls, because importing pathlib costs 15 ms of CPU."""

from __future__ import annotations

import os

from appliance.probe import places

TYPE_CHECKING = False
if TYPE_CHECKING:
    pass

LIMIT = 8 << 20
"""Maximum bytes read of one file; no requested file in /proc, /sys or /etc is larger."""


def data(path: str, limit: int = LIMIT, of: int | None = None) -> bytes:
    """Return the content of a regular file, at most ``limit`` bytes; ``of``: an owner trusted in addition to root. Raises OSError."""
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
    """Return the text of a file, undecodable bytes replaced. Raises OSError."""
    return data(path, limit, of).decode("utf-8", "replace")


def text(path: str, default: str = "") -> str:
    """Return the stripped text of a file, or ``default`` if it cannot be read."""
    try:
        return read(path).strip()
    except OSError:
        return default


def number(path: str) -> int | None:
    """Return the integer in a file (decimal or 0x); None if there is none."""
    try:
        return int(text(path), 0)
    except ValueError:
        return None


def names(path: str) -> list[str]:
    """Return the sorted names in a folder; none if it is missing or not readable."""
    try:
        return listing(path)
    except OSError:
        return []


def listing(path: str) -> list[str]:
    """Return the sorted names in a folder. Raises OSError."""
    return places.listed(path)


def link(path: str) -> str | None:
    """Return the target of a symbolic link; None for other files."""
    try:
        return places.target(path)
    except OSError:
        return None


def exists(path: str) -> bool:
    """Return whether something, even a broken link, exists. Raises OSError if that cannot be read."""
    try:
        places.status(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def real(path: str) -> str:
    """Return the path with all symbolic links resolved."""
    return os.path.realpath(path)
