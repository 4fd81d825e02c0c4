"""The one door to programs on the control machine."""

import os
import signal
import subprocess  # noqa: TID251 - this module is the door
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from appliance.errors import CommandFailed, DeadlineExceeded


@dataclass(frozen=True)
class Completed:
    """How a program ended; ``stdout`` and ``stderr`` are text, undecodable bytes replaced."""

    argv: tuple[str, ...]
    returncode: int
    stdout: str
    stderr: str


def run(
    argv: Sequence[str],
    *,
    input: str | bytes | None = None,
    timeout: float | None = 60.0,
    check: bool = True,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    hint: str = "",
) -> Completed:
    """Run a program to its end in its own process group, which is killed when ``timeout`` (seconds) passes.

    ``env`` is added to this process's environment. Raises CommandFailed (not found, or a non-zero exit
    under ``check``) or DeadlineExceeded. Secrets belong in ``input``, never in ``argv``.
    """
    data = input.encode() if isinstance(input, str) else input
    try:
        child = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL if data is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **(env or {})},
            cwd=cwd,
            start_new_session=True,
        )
    except OSError as error:
        raise CommandFailed(f"{argv[0]}: {error.strerror or error}", hint) from error
    try:
        out, err = child.communicate(data, timeout=timeout)
    except subprocess.TimeoutExpired as error:
        _kill_group(child)
        raise DeadlineExceeded(f"{argv[0]} did not end within {timeout:g} s", hint) from error
    except BaseException:
        _kill_group(child)
        raise
    done = Completed(
        tuple(argv), child.returncode, out.decode(errors="replace"), err.decode(errors="replace")
    )
    if check and done.returncode:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise CommandFailed(
            f"{argv[0]} failed with {done.returncode}" + (f": {said[-1]}" if said else ""), hint
        )
    return done


def spawn(argv: Sequence[str], *, env: Mapping[str, str] | None = None, log: Path) -> int:
    """Start a daemon in its own session with its output in ``log``; returns its process id."""
    with log.open("ab") as sink:
        child = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
            env={**os.environ, **(env or {})},
            start_new_session=True,
        )
    # A daemon is not waited for; a Popen without a return code would warn that it still runs.
    child.returncode = 0
    return child.pid


def _kill_group(child: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
