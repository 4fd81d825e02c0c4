"""Runs other programs; what they print on errors becomes one line."""

from __future__ import annotations

import os
import subprocess  # noqa: TID251 - this program runs on hosts and has its own door
from typing import TYPE_CHECKING

from appliance.backup.trouble import TOOL, Trouble

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import IO

LONG_S = 1500.0
"""Seconds for a dump or a transfer: below the limit of the unit."""


def run(
    argv: Sequence[str],
    kind: str,
    *,
    source: IO[bytes] | None = None,
    sink: IO[bytes] | None = None,
    text: bytes | None = None,
    extra: Mapping[str, str] | None = None,
    seconds: float = LONG_S,
    name: str = "",
) -> str:
    """The program's standard output, "" where it goes to ``sink``. Raises Trouble of this kind.

    ``source`` or ``text`` is its standard input. ``extra``: variables of its environment, for secrets that its arguments must not show.
    ``name``: of the program in messages, if another one starts it.
    """
    name = name or argv[0]
    given: dict[str, object] = {"stdin": subprocess.DEVNULL}
    if text is not None:
        given = {"input": text}
    elif source is not None:
        given = {"stdin": source}
    try:
        done = subprocess.run(
            list(argv),
            stdout=sink or subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=seconds,
            check=False,
            env={**os.environ, "LC_ALL": "C", **(extra or {})},
            **given,  # type: ignore[call-overload]
        )
    except FileNotFoundError:
        raise Trouble(TOOL, f"{name} is not installed") from None
    except subprocess.TimeoutExpired:
        raise Trouble(kind, f"{name} did not finish within {seconds:.0f} s") from None
    if done.returncode:
        raise Trouble(kind, f"{name}: {_last(done.stderr) or f'exit {done.returncode}'}")
    return (done.stdout or b"").decode("utf-8", "replace")


def _last(said: bytes) -> str:
    lines = [line.strip() for line in said.decode("utf-8", "replace").splitlines() if line.strip()]
    # sftp ends with "Connection closed"; the reason is in the line before it.
    reasons = [line for line in lines if not line.lower().startswith("connection closed")]
    return (reasons or lines or [""])[-1][:300]
