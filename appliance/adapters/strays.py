"""What a killed run leaves on the control host, found again by its mark: processes, and folders with secrets."""

import hashlib
import os
import shutil
import signal
import tempfile
import time
from contextlib import suppress
from pathlib import Path

VARIABLE = "APPLIANCE_RUN"
"""Environment variable that carries the mark to every process of a run."""

MEMORY = Path("/dev/shm")
PATIENCE = 5.0
"""Seconds that processes may take to die."""


def mark(folder: Path) -> str:
    """Tells a run from every other on this machine, of this site or another: where its folder really lies."""
    return str(folder.resolve())


def private_folder(mark: str) -> Path:
    """A new folder for this user alone, in memory where the system has that; secrets in it never reach a disk."""
    return Path(tempfile.mkdtemp(prefix=_prefix(mark), dir=_room()))


def discard(folder: Path) -> None:
    """Removes a private folder, and ends the shared ssh connections that would outlive their use in it."""
    for pid in _processes(title=f"{folder}/"):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    shutil.rmtree(folder, ignore_errors=True)


def end(mark: str) -> int:
    """Ends what a run left working here and removes its private folders; how many processes that were."""
    ended: set[int] = set()
    deadline = time.monotonic() + PATIENCE
    wanted = {"title": f"/{_prefix(mark)}", "variable": f"{VARIABLE}={mark}"}
    # One look is not enough: what is killed last may have started something after its turn.
    while (found := _processes(**wanted)) and time.monotonic() < deadline:
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        ended |= found
        time.sleep(0.05)
    for folder in _room().glob(f"{_prefix(mark)}*"):
        shutil.rmtree(folder, ignore_errors=True)
    return len(ended)


def _processes(title: str, variable: str = "") -> set[int]:
    """Processes with this in their command line, or with the variable.

    OpenSSH's shared connections write a title over their environment; it names the folder they lie in.
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
    return f"appliance-{hashlib.sha256(mark.encode()).hexdigest()[:12]}-"


def _room() -> Path:
    usable = MEMORY.is_dir() and os.access(MEMORY, os.W_OK)
    return MEMORY if usable else Path(tempfile.gettempdir())
