"""The lock of a host for all control machines. This file is sent to a host and runs there as a program of its own, with its request as argument.

The note is written in place, under a lock that no other user of the host can take, and it ages by the time since the host's boot:
a deployment sets the clock, and restarts the host.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import stat
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Note = dict[str, Any]

FOLDER = "/var/lib/appliance"
NAME = "lease"
LONGEST = 4096
SHOWN = 128
LOCK_S = 5.0
MOST_S = 3600.0
"""Seconds after which a lock without renewal ends, whatever it contains."""


def answer(request: Note, folder: str = FOLDER) -> Note:
    """Return the outcome: ``taken`` (``before``: the previous note), ``held`` with another's note, ``renewed``, ``released``, ``lost``, or nothing if ``look`` finds no lock.

    Raises OSError where the note cannot be kept.
    """
    number = _opened(folder)
    try:
        _lock(number)
        there = _read(number)
        if request["do"] == "look":
            is_other = there.get("owner") != request["note"]["owner"]
            return {"held": there} if there and is_other and not is_old(there, _now()) else {}
        if request["do"] == "take":
            return _take(number, request, there)
        if there.get("run") != request["note"]["run"]:
            return {"lost": there}
        if request["do"] == "renew":
            _write(number, dict(there, **_now()))
            return {"renewed": True}
        os.ftruncate(number, 0)
        return {"released": True}
    finally:
        os.close(number)


def held(text: str) -> Note:
    """Return the fields of the note that are shown; {} if it is invalid or missing."""
    there = _parsed(text)
    if not there or is_old(there, _now()):
        return {}
    return {
        key: str(there.get(key) or "?")[:SHOWN] for key in ("owner", "who", "run", "verb", "since")
    }


def _take(number: int, request: Note, there: Note) -> Note:
    mine = request["note"]
    is_other = bool(there) and there.get("owner") != mine["owner"]
    if is_other and not is_old(there, _now()) and not request["over"]:
        return {"held": there}
    since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    _write(number, dict(mine, since=since, **_now()))
    return {"taken": True, "before": there if is_other else None}


def is_old(note: Note, now: Note) -> bool:
    """Return whether it was not renewed in time; after a reboot it is at least as old as the boot."""
    at, seconds = note.get("at"), note.get("seconds")
    if not isinstance(at, (int, float)) or not isinstance(seconds, (int, float)):
        return True
    age = now["at"] - (at if note.get("boot") == now["boot"] else 0.0)
    return not 0.0 <= age <= min(seconds, MOST_S)


def _now() -> Note:
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:  # noqa: PTH123
        boot = file.read().strip()
    return {"boot": boot, "at": time.clock_gettime(time.CLOCK_BOOTTIME)}


def _opened(folder: str) -> int:
    os.makedirs(folder, 0o700, exist_ok=True)  # noqa: PTH103
    place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        _own(os.fstat(place), folder)
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        number = os.open(NAME, flags, 0o600, dir_fd=place)
    finally:
        os.close(place)
    state = os.fstat(number)
    if not stat.S_ISREG(state.st_mode) or state.st_nlink != 1:
        os.close(number)
        raise OSError(errno.EPERM, "it is not a separate regular file", folder + "/" + NAME)
    _own(state, folder + "/" + NAME)
    os.fchmod(number, 0o600)
    return number


def _own(state: os.stat_result, path: str) -> None:
    if state.st_uid != os.geteuid() or state.st_mode & 0o022:
        raise OSError(errno.EPERM, "another user could write it", path)


def _lock(number: int) -> None:
    end = time.monotonic() + LOCK_S
    while True:
        try:
            return fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EACCES) or time.monotonic() > end:
                raise
        time.sleep(0.05)


def _read(number: int) -> Note:
    return _parsed(os.pread(number, LONGEST, 0).decode("utf-8", "replace"))


def _parsed(text: str) -> Note:
    """Return the lock's content; {} if it is incomplete or invalid."""
    try:
        note = json.loads(text[:LONGEST] or "{}")
    except (ValueError, RecursionError):
        return {}
    return note if isinstance(note, dict) and note.get("run") else {}


def _write(number: int, note: Note) -> None:
    text = json.dumps(note).encode()
    os.pwrite(number, text, 0)
    os.ftruncate(number, len(text))
    os.fsync(number)


def main() -> int:
    """Answer the request, given as argument, as JSON."""
    os.umask(0o077)
    try:
        told = answer(json.loads(sys.argv[1]))
    except OSError as error:
        sys.stderr.write(str(error.filename or NAME) + ": " + str(error.strerror or error) + "\n")
        return 1
    sys.stdout.write(json.dumps(told))
    return 0


if __name__ == "__main__":
    sys.exit(main())
