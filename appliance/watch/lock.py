"""Allows one run at a time. Only root can open the lock, waiting is shorter than Slurm's limit for a run, and it ends with its process."""

from __future__ import annotations

import fcntl
import json
import os
import time
from contextlib import contextmanager

from appliance.probe.collectors.watch import WAITS
from appliance.watch import verdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

LOCK = "/run/appliance/private/watch.lock"
"""Anyone who can open a file, even for reading, can lock it."""
PATIENCE_S = 15.0
"""slurmd ends a health check after 60 s, and a prolog, too: the run must fit after the wait."""
PAUSE_S = 0.2


class Busy(Exception):
    """Another run does not end; the text is one line."""


@contextmanager
def alone(seconds: float = PATIENCE_S) -> Iterator[None]:
    """Wait up to this time for another run. Raises Busy, and leaves a note for the probe."""
    lock = _opened(LOCK)
    try:
        end = time.monotonic() + seconds
        while not _taken(lock):
            if time.monotonic() >= end:
                raise _busy(lock, seconds)
            time.sleep(PAUSE_S)
        os.ftruncate(lock, 0)
        os.pwrite(lock, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(lock)


def _opened(path: str) -> int:
    folder = os.path.dirname(path)  # noqa: PTH120 - pathlib costs 15 ms
    os.makedirs(os.path.dirname(folder), mode=0o755, exist_ok=True)  # noqa: PTH103, PTH120
    os.makedirs(folder, mode=0o700, exist_ok=True)  # noqa: PTH103
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def _taken(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _busy(lock: int, seconds: float) -> Busy:
    said = os.pread(lock, 20, 0).decode("ascii", "replace")
    holder = int(said) if said.isdigit() else None
    verdict.write(WAITS, json.dumps({"time": round(time.time(), 1), "process": holder}) + "\n")
    return Busy(f"another look, process {said or 'unknown'}, has not ended for {seconds:g} s")
