"""Whether hosts see what others write to a shared directory, and whether a lock of one holds for all; runs there by itself, as one file.

    seen.py FOLDER HOSTS

The hosts meet in FOLDER, which they all see: the first to come writes, the others answer. Python 3.8 and newer; prints one JSON object.
"""

import fcntl
import json
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any, Callable, Dict, Optional  # noqa: UP035  Python 3.8

ROUNDS, ADDED = 5, 25
PATIENCE, MEETING, POLL = 20.0, 90.0, 0.01
"""s that others have to answer, and to come at all: Slurm and ssh start them one after the other."""


class Late(Exception):
    """Somebody is not there, or is not seen."""


def take_place(folder: Path, hosts: int) -> int:
    """A number that nobody else has: the server gives a name to one alone."""
    for place in range(hosts):
        try:
            os.close(os.open(str(folder / f"place-{place}"), os.O_CREAT | os.O_EXCL, 0o600))
        except FileExistsError:
            continue
        return place
    raise Late("more hosts came than were asked for")


def say(folder: Path, name: str, text: str) -> None:
    with (folder / f"{name}").open("w", encoding="ascii") as file:
        file.write(text)


def hear(folder: Path, name: str) -> Optional[str]:  # noqa: UP045
    try:
        with (folder / f"{name}").open(encoding="ascii") as file:
            return file.read()
    except FileNotFoundError:
        return None


def until(what: str, done: Callable[[], bool], patience: float = PATIENCE) -> None:
    end = time.monotonic() + patience
    while not done():
        if time.monotonic() > end:
            raise Late(f"{what} was not seen within {patience:g} s")
        time.sleep(POLL)


def there(folder: Path, name: str, text: Optional[str] = None) -> Callable[[], bool]:  # noqa: UP045
    """Whether the file is seen, with this text where one is asked for."""

    def seen() -> bool:
        heard = hear(folder, name)
        return heard is not None and text in {None, heard}

    return seen


def exchange(folder: Path, place: int, hosts: int) -> float:
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


def locked(folder: Path, place: int, hosts: int) -> str:
    """What came of asking for a lock that the first host holds: "refused" is right; of the first host "held"."""
    with (folder / "lock").open("a+", encoding="ascii") as file:
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


def count(folder: Path, place: int, hosts: int) -> int:
    """Everybody adds to one number under the lock; what the first host finds at the end."""
    for _ in range(ADDED):
        with (folder / "lock").open("r+", encoding="ascii") as file:
            fcntl.lockf(file, fcntl.LOCK_EX)
            number = int(file.read() or 0)
            file.seek(0)
            file.write(str(number + 1))
            file.flush()
            os.fsync(file.fileno())
    say(folder, f"added-{place}", "")
    for other in range(hosts):
        until(f"the end of host {other}", there(folder, f"added-{other}"))
    with (folder / "lock").open("r+", encoding="ascii") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        return int(file.read() or 0)


def leave(folder: Path, place: Optional[int], hosts: int) -> None:  # noqa: UP045
    """Waits for the others, who may still be at it, and takes the folder away; whoever comes later finds it gone."""
    try:
        if place is not None:
            say(folder, f"left-{place}", "")
        for other in range(hosts):
            left = there(folder, f"left-{other}")
            until(f"the end of host {other}", lambda left=left: left() or not folder.is_dir())  # type: ignore[misc]
    except (Late, OSError):
        pass  # who is still missing has ended, or sees no folder any more: the verdict is made
    shutil.rmtree(str(folder), ignore_errors=True)


def main() -> int:
    folder, hosts = Path(sys.argv[1]), int(sys.argv[2])
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    said: Dict[str, Any] = {"place": None}  # noqa: UP006
    try:
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
    leave(folder, said["place"], hosts)
    sys.stdout.write(json.dumps(said) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
