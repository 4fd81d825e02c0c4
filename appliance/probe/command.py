"""Runs programs for the probe: no shell, C locale, a deadline that ends the whole process group."""

from __future__ import annotations

import os
import re
import signal
import subprocess  # noqa: TID251 - the probe stands alone on the host; this is its own door
from contextlib import suppress

from appliance.probe.lines import lines_of
from appliance.probe.problems import FOLDERS, Absent, Denied, Late, Unreadable

NOT_FOUND = 127
"""Exit codes of a wrapper whose program is missing."""
REFUSED = re.compile(r"not permitted|permission denied|open UMAD", re.IGNORECASE)
"""EPERM and EACCES as text of glibc, and libibumad's message for a device without permission."""
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def run(argv: Sequence[str], timeout: float, ok: Sequence[int]) -> str:
    """Return the standard output of a program, undecodable bytes replaced.

    Raises Absent when it says that it is not installed, Late when it does not end within ``timeout`` seconds, Unreadable when it cannot start or ends with a
    status that is not in ``ok``; Denied where that is for want of rights.
    """
    name = argv[0].rpartition("/")[2]
    status, out, err = ended(argv, timeout)
    if status not in ok:
        said = lines_of((err or out).strip())
        why = f"{name} failed with {status}" + (": " + said[-1] if said else "")
        raise _failure(status, why)(why)
    return out


def ended(argv: Sequence[str], timeout: float) -> tuple[int, str, str]:
    """Return status, output and errors of a program that ended. Raises Late, Unreadable, or Denied if it may not be started."""
    name = argv[0].rpartition("/")[2]
    try:
        child = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "LC_ALL": "C", "PATH": ":".join(FOLDERS)},
            start_new_session=True,
        )
    except OSError as error:
        failure = Denied if isinstance(error, PermissionError) else Unreadable
        raise failure(name + ": " + str(error.strerror)) from error
    try:
        out, err = child.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        _end(child)
        raise Late(f"{name} did not answer within {timeout:g} s") from None
    return child.returncode, out.decode("utf-8", "replace"), err.decode("utf-8", "replace")


def _failure(status: int, said: str) -> type[Unreadable]:
    if status == NOT_FOUND:
        return Absent
    return Denied if REFUSED.search(said) else Unreadable


def _end(child: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    for pipe in (child.stdout, child.stderr):
        if pipe is not None:
            pipe.close()
    with suppress(subprocess.TimeoutExpired):
        child.wait(1.0)
