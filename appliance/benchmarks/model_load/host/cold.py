"""Evicts files from this host's page cache, and verifies the eviction."""

from __future__ import annotations

import ctypes
import mmap
import os
from pathlib import Path

COLD = 0.01
"""Share of a file's pages that may have stayed in the page cache of a load that counts as cold."""
DROP = Path("/proc/sys/vm/drop_caches")
RESIDENT = bytes(value & 1 for value in range(256))
"""The lowest bit of a page's value in mincore(2); the others are reserved."""
FAILED = ctypes.c_void_p(-1).value


def chill(path: Path) -> float | None:
    """Evicts a file by posix_fadvise(2). If that is not sufficient, root drops all caches. Returns the share that stayed,

    or None if the kernel does not report it.
    """
    with path.open("rb") as file:
        os.fdatasync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    stayed = resident(path)
    if stayed is not None and stayed <= COLD:
        return stayed
    try:
        DROP.write_text("1", encoding="ascii")
    except OSError:
        return stayed
    return resident(path)


def resident(path: Path) -> float | None:
    """Returns the share of a file's pages in the page cache; None if the kernel does not report it.

    For a caller who neither owns the file nor may write it, Linux returns "all" (mincore(2), since 5.2): it looks warm then.
    """
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = (
        *(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int),
        ctypes.c_long,
    )
    size = path.stat().st_size
    with path.open("rb") as file:
        at = libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, file.fileno(), 0)
    if at in (None, FAILED):
        return None
    pages = (ctypes.c_ubyte * -(-size // mmap.PAGESIZE))()
    try:
        if libc.mincore(ctypes.c_void_p(at), ctypes.c_size_t(size), pages):
            return None
    finally:
        libc.munmap(ctypes.c_void_p(at), ctypes.c_size_t(size))
    return sum(bytes(pages).translate(RESIDENT)) / len(pages)


def fetched() -> int:
    """Returns the bytes that this process and its threads requested from storage (proc(5), read_bytes); -1 if unknown."""
    try:
        lines = Path("/proc/self/io").read_text(encoding="ascii").split("\n")
        return int(dict(line.split(": ") for line in lines if line)["read_bytes"])
    except (OSError, KeyError, ValueError):
        return -1
