"""Calls of one role on one host: one at a time, and a call ends soon after its controller.

Two calls at once damage each other. systemctl restart of the one met a mariadbd that the other was starting: MariaDB 10.11 lost
the signal, and systemd waited for TimeoutStopSec, which is 15 min.
"""

from __future__ import annotations

import fcntl
import os
import re
import select
import time
from contextlib import contextmanager, suppress
from typing import Iterator

from ansible_collections.appliance.host.plugins.module_utils.outcome import Problem, os_reason

LOCKS = "/run/appliance-apply"
"""A folder of root's own: /run/lock is open to all users, who could hold such a lock."""
OUTPUT = 1
"""File descriptor of the answer to the controller."""
LONGEST_S = 1800.0
"""An abandoned call ends after its current resource: a driver that is built, or packages from a slow mirror, take this long at most."""
PAUSE_S = 0.2


class Abandoned(Exception):
    """Nobody reads the answer: the program that started the call was killed or interrupted, or its connection was cut."""


def check_reader() -> None:
    """Raises Abandoned if no process reads the answer.

    sshd closes the pipe when its connection ends. The module gets no signal, and would notice only at its first write.
    """
    poll = select.poll()
    poll.register(OUTPUT, 0)
    if any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0)):
        raise Abandoned


@contextmanager
def alone(role: str) -> Iterator[None]:
    """Waits for an earlier call of the role. Raises Problem if it does not end, Abandoned if the reader is gone by then."""
    path = os.path.join(LOCKS, re.sub(r"[^\w.-]", "_", role) + ".lock")
    lock = _taken(path, role)
    try:
        with suppress(OSError):
            os.ftruncate(lock, 0)
            os.pwrite(lock, str(os.getpid()).encode(), 0)
        yield
    finally:
        # Before the lock is free: whoever waits for it sees that its file is gone, and makes another.
        with suppress(OSError):
            if _is_there(path, lock):
                os.unlink(path)
        os.close(lock)


def _taken(path: str, role: str) -> int:
    """The file of the role's lock, which this process holds."""
    end = time.monotonic() + LONGEST_S
    while True:
        lock = _opened(path)
        try:
            _take(lock, role, end)
            if _is_there(path, lock):
                return lock
        except BaseException:
            os.close(lock)
            raise
        os.close(lock)


def _is_there(path: str, lock: int) -> bool:
    """Whether the file has still this name: the call that held the lock before has removed it."""
    try:
        return os.path.samestat(os.lstat(path), os.fstat(lock))
    except FileNotFoundError:
        return False


def _opened(path: str) -> int:
    """Not inherited by programs and daemons that the call starts; the kernel frees the lock when the process ends."""
    try:
        os.makedirs(LOCKS, mode=0o700, exist_ok=True)
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise Problem(f"{path}: {os_reason(error)}") from None


def _take(lock: int, role: str, end: float) -> None:
    while True:
        check_reader()
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > end:
                raise _busy(lock, role) from None
            time.sleep(PAUSE_S)
        else:
            return


def _busy(lock: int, role: str) -> Problem:
    pid = os.pread(lock, 20, 0).decode("ascii", "replace")
    return Problem(
        f"an earlier call of role {role} (process {pid}) still works on this host after {LONGEST_S / 60:g} min;"
        f" look at what it does with ps --forest -g $(ps -o sid= -p {pid}), and end it if it hangs"
    )
