"""The adapter for programs on the control machine."""

import os
import signal
import subprocess  # noqa: TID251 - this module is the door
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import IO

from appliance.errors import CommandFailed, DeadlineExceeded


@dataclass(frozen=True)
class Completed:
    """The result of a program; ``stdout`` and ``stderr`` are text, undecodable bytes replaced."""

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
    name: str = "",
) -> Completed:
    """Runs a program in its own process group, which is killed after ``timeout`` (seconds).

    ``name``: of the program in messages, where ``argv`` begins with another that starts it. ``env`` is added to this process's environment. Raises CommandFailed (not found, or a non-zero exit
    under ``check``) or DeadlineExceeded. Secrets belong in ``input``, never in ``argv``.
    """
    name = name or argv[0]
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
        raise CommandFailed(f"{name}: {error.strerror or error}", hint) from error
    try:
        out, err = child.communicate(data, timeout=timeout)
    except subprocess.TimeoutExpired as error:
        _kill_group(child)
        raise DeadlineExceeded(f"{name} did not end within {timeout:g} s", hint) from error
    except BaseException:
        _kill_group(child)
        raise
    done = Completed(
        tuple(argv), child.returncode, out.decode(errors="replace"), err.decode(errors="replace")
    )
    if check and done.returncode:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise CommandFailed(
            f"{name} failed with {done.returncode}" + (f": {said[-1]}" if said else ""), hint
        )
    return done


@contextmanager
def alongside(argv: Sequence[str], tell: Callable[[str], None]) -> Iterator[None]:
    """Run a program while the block runs, and wait for its end after it. ``tell`` is given each line of its standard output.

    If the block raises, the program is killed with its process group. How it ends is for the caller to find out.
    """
    child = subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert child.stdout is not None
    reader = Thread(target=_pass_lines, args=(child.stdout, tell), daemon=True)
    reader.start()
    try:
        yield
        child.wait()
    finally:
        _kill_group(child)
        reader.join()


def spawn(argv: Sequence[str], *, env: Mapping[str, str] | None = None, log: Path) -> int:
    """Starts a daemon in its own session with its output in ``log``; returns its process id."""
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


def _pass_lines(lines: IO[bytes], tell: Callable[[str], None]) -> None:
    with lines:
        for line in lines:
            tell(line.decode(errors="replace").rstrip("\n"))


def _kill_group(child: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
