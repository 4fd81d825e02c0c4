"""What a killed run leaves on the control machine, found by its mark: processes, and folders with secrets."""

import fcntl
import hashlib
import os
import re
import shutil
import signal
import stat
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from appliance.errors import ApplianceError

VARIABLE = "APPLIANCE_RUN"
"""Environment variable with the mark, in every process of a run."""

MEMORY = Path("/dev/shm")
SPARE = (Path("/tmp"), Path("/var/tmp"))
PLAIN = re.compile(r"/[A-Za-z0-9/._-]{1,30}")
"""A valid name of a folder for ssh's control sockets: no character that ssh expands, within 108 bytes in all (unix(7))."""
PATIENCE = 5.0
"""Seconds until processes must have ended."""

PREFIX = "appliance-"
NOTE = "run"
"""File in a private folder: the name of its run, locked while the process that created the folder lives."""

_guard = threading.RLock()
_marks: set[str] = set()
_notes: dict[Path, TextIO] = {}
_swept = threading.Event()


def mark(folder: Path) -> str:
    """Distinguishes a run from every other on this machine, of any site: the real path of its folder."""
    return str(folder.resolve())


def private_folder(mark: str) -> Path:
    """A new folder for this user only, in memory if available; then its secrets never reach a disk."""
    rooms = _rooms()
    if not rooms:
        raise ApplianceError(
            f"{MEMORY}, {tempfile.gettempdir()}: cannot create a folder for the secrets of a run",
            f"make {MEMORY} or /tmp writable",
        )
    with _guard:
        if _swept.is_set():
            raise ApplianceError("the program is ending")
        _marks.add(mark)
        folder = Path(tempfile.mkdtemp(prefix=_prefix(mark), dir=rooms[0]))
        try:
            _notes[folder] = _noted(folder, Path(mark).name)
        except BaseException:
            _remove(folder)
            raise
    return folder


def discard(folder: Path) -> None:
    """Removes a private folder, and ends shared ssh connections that would outlive it."""
    for pid in _processes(title=f"{folder}/"):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    _remove(folder)


def sweep() -> None:
    """The last step of a process that exits without waiting for its threads: ``end`` for all its runs."""
    with _guard:
        _swept.set()
        for mark in tuple(_marks):
            end(mark)


def clear() -> tuple[str, ...]:
    """Ends and removes what dead processes of this user left, of any site; returns the names of their runs."""
    found = {folder: run for folder in _folders(PREFIX) if (run := _dead(folder))}
    for folder in found:
        _kill(title=f"{folder}/")
        _remove(folder)
    return tuple(found.values())


def end(mark: str) -> int:
    """Ends the processes that a run left here and removes its private folders; returns the number of processes."""
    ended = _kill(title=f"/{_prefix(mark)}", variable=f"{VARIABLE}={mark}")
    for folder in _folders(_prefix(mark)):
        _remove(folder)
    return ended


def _kill(title: str, variable: str = "") -> int:
    """Ends the processes of ``_processes``; returns their number."""
    ended: set[int] = set()
    deadline = time.monotonic() + PATIENCE
    # Repeated, because a process may start another one before it is killed.
    while (found := _processes(title, variable)) and time.monotonic() < deadline:
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        ended |= found
        time.sleep(0.05)
    return len(ended)


def _noted(folder: Path, run: str) -> TextIO:
    """The lock exists before the file has its name: a file with that name and no lock is dead."""
    note = (folder / f"{NOTE}.new").open("x", encoding="utf-8")
    fcntl.flock(note, fcntl.LOCK_EX | fcntl.LOCK_NB)
    note.write(run)
    note.flush()
    (folder / f"{NOTE}.new").rename(folder / NOTE)
    return note


def _dead(folder: Path) -> str:
    """The run that a folder was created for, if it has ended; "" if it has not, or if that is unknown."""
    with suppress(OSError), (folder / NOTE).open(encoding="utf-8") as note:
        fcntl.flock(note, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return note.read()
    return ""


def _remove(folder: Path) -> None:
    """A thread may still write there until its process has ended."""
    for _ in range(10):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            break
        time.sleep(0.02)
    if note := _notes.pop(folder, None):
        note.close()


def _folders(prefix: str) -> list[Path]:
    """Private folders of this user."""
    found = []
    for folder in (f for room in _rooms() for f in room.glob(f"{prefix}*")):
        # Other processes clean up as well.
        with suppress(FileNotFoundError):
            state = folder.lstat()
            if stat.S_ISDIR(state.st_mode) and state.st_uid == os.geteuid():
                found.append(folder)
    return found


def _processes(title: str, variable: str = "") -> set[int]:
    """Processes with this in their command line, or with the variable.

    OpenSSH's shared connections overwrite their environment with a title; it names the folder of their socket.
    """
    found = set()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with suppress(OSError):
            environ = (entry / "environ").read_bytes().split(b"\0") if variable else []
            if variable.encode() in environ or title.encode() in (entry / "cmdline").read_bytes():
                found.add(int(entry.name))
    return found


def _prefix(mark: str) -> str:
    return f"{PREFIX}{hashlib.sha256(mark.encode()).hexdigest()[:12]}-"


def _rooms() -> list[Path]:
    """Where private folders can be: in memory, else below a path that ssh accepts unchanged for a socket."""
    others = (Path(tempfile.gettempdir()), *SPARE)
    rooms = (MEMORY, *(room for room in others if PLAIN.fullmatch(str(room))))
    return [room for room in rooms if room.is_dir() and os.access(room, os.W_OK)]
