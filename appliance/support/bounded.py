"""Output of programs and ends of files, up to a size: the newest part is kept, from the beginning of a line."""

from __future__ import annotations

import errno
import os
import select
import signal
import stat
import subprocess  # noqa: TID251 - it runs on hosts, like the probe's own door, and reads without end what that would keep
import time
from contextlib import suppress

from appliance.probe import places
from appliance.probe.problems import FOLDERS

PIECE = 1 << 16
DAEMONS = (range(1000), range(60000, 65000))
"""Numbers of accounts that packages create (login.defs, UID_MIN; Debian policy 9.2.2, as slurm's 64030)."""
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


class Tail:
    """Bytes of which only the last ``most`` are kept."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._parts: list[bytes] = []
        self._kept = 0
        self.size = 0

    def add(self, part: bytes) -> None:
        """Keep it, and drop what is no longer among the last."""
        self._parts.append(part)
        self._kept += len(part)
        self.size += len(part)
        while self._kept - len(self._parts[0]) >= self._most:
            self._kept -= len(self._parts.pop(0))

    def text(self, *, is_whole: bool = True) -> str:
        """The lines that are whole: a secret that a cut divides is not recognised. ``is_whole``: nothing is missing at the end."""
        data = b"".join(self._parts)[-self._most :]
        if len(data) < self.size:
            data = data.partition(b"\n")[2]
        if not is_whole:
            data = data.rpartition(b"\n")[0]
        return data.decode("utf-8", "replace")


class Output:
    """What a program wrote; ``status`` None: it was ended after its time."""

    def __init__(self, tail: Tail, status: int | None) -> None:
        self.text = tail.text(is_whole=status is not None)
        self.size, self.status = tail.size, status


def output(argv: Sequence[str], seconds: float, most: int, folder: str = "/") -> Output:
    """Run a program without input, in its own process group; both of its streams. Raises OSError."""
    child = subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={"LC_ALL": "C", "PATH": ":".join(FOLDERS), "HOME": "/root"},
        cwd=folder,
        start_new_session=True,
    )
    assert child.stdout is not None
    end, tail = time.monotonic() + seconds, Tail(most)
    with child.stdout as stream:
        while (left := end - time.monotonic()) > 0:
            if select.select([stream], [], [], left)[0]:
                part = os.read(stream.fileno(), PIECE)
                if not part:
                    break
                tail.add(part)
        with suppress(subprocess.TimeoutExpired):
            child.wait(max(0.0, end - time.monotonic()))
    status = child.poll()
    if status is None:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            child.wait(1.0)
    return Output(tail, status)


def end_of(path: str, most: int, since: float) -> tuple[str, int]:
    """The last lines of a log, and its size. Raises OSError, also if it is older than ``since`` (seconds since 1970)."""
    number = _log(path)
    try:
        size = os.fstat(number).st_size
        if os.fstat(number).st_mtime < since:
            raise OSError(errno.ESTALE, "unchanged in the window")
        tail = Tail(most)
        os.lseek(number, max(0, size - most - 1), os.SEEK_SET)
        left = most + 1
        while left > 0:
            part = os.read(number, min(left, PIECE))
            if not part:
                break
            tail.add(part)
            left -= len(part)
        return tail.text(), size
    finally:
        os.close(number)


def _log(path: str) -> int:
    """A descriptor of a log, also of root's own in the folder of a daemon: slurmd logs as root next to slurmctld's logs.

    places.py refuses those, because the folder's owner may have linked there to a file of root's. Such a file has
    another name (link(2)), and one with a single name was put there by root. Raises OSError.
    """
    try:
        return places.opened(path)
    except places.Untrusted:
        folder, _, name = path.rpartition("/")
        held = places.folder(folder)
        try:
            number = os.open(name, places.READ | os.O_NOFOLLOW | os.O_NOCTTY, dir_fd=held)
            found, above = os.fstat(number), os.fstat(held)
        finally:
            os.close(held)
        is_own = stat.S_ISREG(found.st_mode) and found.st_uid == 0 and found.st_nlink == 1
        if is_own and any(above.st_uid in numbers for numbers in DAEMONS):
            return number
        os.close(number)
        raise
