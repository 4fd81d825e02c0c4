"""Names the processes that use a GPU."""

from __future__ import annotations

import os
import pwd
from typing import NamedTuple

from appliance.probe import files


class Process(NamedTuple):
    """A process that uses a GPU."""

    pid: int
    name: str
    user: str

    def __str__(self) -> str:
        return f"{self.pid} {self.name} ({self.user})"


def named(pid: int) -> Process:
    """Return a process by its number; one that this host cannot see is reported, because it uses the GPU, too."""
    at = f"/proc/{pid}"
    try:
        user = _user(os.stat(at).st_uid)  # noqa: PTH116
    except OSError:
        return Process(pid, "not visible from here", "unknown")
    return Process(pid, files.text(at + "/comm") or "?", user)


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
