"""Checks whether hosts see files that others write to a shared directory, and whether a lock of one applies to all. Runs on hosts as one file.

    seen.py FOLDER HOSTS

The hosts use FOLDER, which they all see: the first host writes, the others answer. Python 3.8 and newer; prints one JSON object.

Users can write next to FOLDER, and can see its name in the arguments. So it must belong to the user to whom the server maps this
one, and be closed to all others. Everything in it is accessed through its descriptor, and no link is followed.
"""

import fcntl
import json
import os
import stat
import sys
import tempfile
import time
from contextlib import suppress
from typing import IO, Any, Callable, Dict, Optional  # noqa: UP035  Python 3.8

ROUNDS, ADDED = 5, 25
PATIENCE, MEETING, POLL = 20.0, 90.0, 0.01
"""s that others have to answer, and to come at all: Slurm and ssh start them one after the other."""


class Late(Exception):
    """A host is missing or not visible."""


class Folder:
    """Returns the common folder; the first host creates it. Raises Late if it belongs to another user."""

    def __init__(self, path: str) -> None:
        self.parent, self.name = os.path.split(path)
        with suppress(FileExistsError):
            os.mkdir(path, 0o700)  # noqa: PTH102
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
        try:
            self.descriptor = os.open(path, flags)
        except OSError as error:
            raise Late(f"{path} is not the folder of this measurement: {error.strerror}") from None
        seen = os.fstat(self.descriptor)
        if stat.S_IMODE(seen.st_mode) & 0o077 or seen.st_uid != self._me():
            raise Late(f"{path} is not the folder of this measurement")

    def _me(self) -> int:
        """Returns the owner of files that this process creates there: the server may map root of a client to nobody."""
        with tempfile.TemporaryDirectory(prefix=".appliance-seen-", dir=self.parent) as made:
            return os.stat(made).st_uid  # noqa: PTH116

    def file(self, name: str, mode: str, flags: int) -> "IO[str]":
        made = os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600, dir_fd=self.descriptor)
        if not stat.S_ISREG(os.fstat(made).st_mode):
            os.close(made)
            raise Late(f"{name} is no file")
        return os.fdopen(made, mode, encoding="ascii")

    def is_there(self) -> bool:
        """An entry that others have removed; a descriptor alone would not show that."""
        try:
            there = os.stat(os.path.join(self.parent, self.name), follow_symlinks=False)  # noqa: PTH116, PTH118
        except OSError:
            return False
        return (there.st_dev, there.st_ino) == (
            os.fstat(self.descriptor).st_dev,
            os.fstat(self.descriptor).st_ino,
        )

    def remove(self) -> None:
        for name in os.listdir(self.descriptor):  # noqa: PTH208
            with suppress(OSError):  # another host was first
                os.unlink(name, dir_fd=self.descriptor)
        if self.is_there():
            os.rmdir(os.path.join(self.parent, self.name))  # noqa: PTH106, PTH118


def take_place(folder: Folder, hosts: int) -> int:
    """Takes a unique number: the server gives each name to one client only."""
    for place in range(hosts):
        try:
            folder.file(f"place-{place}", "w", os.O_WRONLY | os.O_CREAT | os.O_EXCL).close()
        except FileExistsError:
            continue
        return place
    raise Late("more hosts took part than were requested")


def say(folder: Folder, name: str, text: str) -> None:
    with folder.file(name, "w", os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as file:
        file.write(text)


def hear(folder: Folder, name: str) -> Optional[str]:  # noqa: UP045
    try:
        with folder.file(name, "r", os.O_RDONLY) as file:
            return file.read()
    except FileNotFoundError:
        return None


def until(what: str, done: Callable[[], bool], patience: float = PATIENCE) -> None:
    end = time.monotonic() + patience
    while not done():
        if time.monotonic() > end:
            raise Late(f"{what} was not seen within {patience:g} s")
        time.sleep(POLL)


def there(folder: Folder, name: str, text: Optional[str] = None) -> Callable[[], bool]:  # noqa: UP045
    """Whether the file is visible, with this text if one is given."""

    def seen() -> bool:
        heard = hear(folder, name)
        return heard is not None and text in {None, heard}

    return seen


def exchange(folder: Folder, place: int, hosts: int) -> float:
    """The longest time from a write to the last answer to it, in s: there and back."""
    longest = 0.0
    for turn in range(ROUNDS):
        word = str(turn)
        if place:
            until(f"round {turn}", there(folder, "asked", word))
            say(folder, f"answer-{turn}-{place}", word)
            continue
        begun = time.monotonic()
        say(folder, "asked", word)
        for other in range(1, hosts):
            until(f"host {other} in round {turn}", there(folder, f"answer-{turn}-{other}", word))
        longest = max(longest, time.monotonic() - begun)
    return longest


def locked(folder: Folder, place: int, hosts: int) -> str:
    """The result of requesting a lock that the first host holds: "refused" is right; on the first host "held"."""
    with folder.file("lock", "a+", os.O_RDWR | os.O_CREAT | os.O_APPEND) as file:
        if place:
            until("the lock", there(folder, "held"))
            try:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                told = "got"
            except BlockingIOError:
                told = "refused"
            say(folder, f"tried-{place}", told)
            return told
        fcntl.lockf(file, fcntl.LOCK_EX)
        say(folder, "held", "")
        for other in range(1, hosts):
            until(f"host {other} at the lock", there(folder, f"tried-{other}"))
    return "held"


def count(folder: Folder, place: int, hosts: int) -> int:
    """Every host adds to one number under the lock; returns the number that the first host reads at the end."""
    for _ in range(ADDED):
        with folder.file("lock", "r+", os.O_RDWR) as file:
            fcntl.lockf(file, fcntl.LOCK_EX)
            number = int(file.read() or 0)
            file.seek(0)
            file.write(str(number + 1))
            file.flush()
            os.fsync(file.fileno())
    say(folder, f"added-{place}", "")
    for other in range(hosts):
        until(f"the end of host {other}", there(folder, f"added-{other}"))
    with folder.file("lock", "r+", os.O_RDWR) as file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        return int(file.read() or 0)


def leave(folder: Folder, place: Optional[int], hosts: int) -> None:  # noqa: UP045
    """Waits for the others, which may still be running, and removes the folder; late hosts find it missing."""
    try:
        if place is not None:
            say(folder, f"left-{place}", "")
        for other in range(hosts):
            left = there(folder, f"left-{other}")
            until(f"the end of host {other}", lambda left=left: left() or not folder.is_there())  # type: ignore[misc]
    except (Late, OSError):
        pass  # a missing host has ended, or no longer sees the folder: the verdict is complete
    with suppress(OSError):
        folder.remove()


def main() -> int:
    hosts = int(sys.argv[2])
    said: Dict[str, Any] = {"place": None}  # noqa: UP006
    folder = None
    try:
        folder = Folder(sys.argv[1])
        said["place"] = place = take_place(folder, hosts)
        say(folder, f"here-{place}", "")
        for other in range(hosts):
            until(f"host {other}", there(folder, f"here-{other}"), MEETING)
        said["longest"] = exchange(folder, place, hosts)
        said["lock"] = locked(folder, place, hosts)
        said["counted"] = count(folder, place, hosts)
        said["added"] = ADDED * hosts
    except (Late, OSError, ValueError) as error:
        said["trouble"] = str(error)
    if folder:
        leave(folder, said["place"], hosts)
    sys.stdout.write(json.dumps(said) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
