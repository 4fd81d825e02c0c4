"""Runs work in a separate process, so that each load starts with a library that has loaded nothing yet."""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, NoReturn

LONGEST_WORDS = 400


class Unable(Exception):
    """A failed measurement, with the reason; ``remedy``: what to do."""

    def __init__(self, why: str, remedy: str = "") -> None:
        super().__init__(why)
        self.remedy = remedy


def apart(
    work: Callable[[], dict[str, Any]], seconds: float, environment: Mapping[str, str]
) -> dict[str, Any]:
    """Returns the result of ``work`` in a separate process, which is killed at its deadline. Raises Unable."""
    reading, writing = os.pipe()
    sys.stdout.flush()
    child = os.fork()
    if not child:
        os.close(reading)
        _work(work, writing, environment)
    os.close(writing)
    said, ends = b"", time.monotonic() + seconds
    try:
        while True:
            left = max(0.0, ends - time.monotonic())
            if not select.select([reading], [], [], left)[0]:
                raise Unable(f"it did not end within {seconds:.0f} s")
            piece = os.read(reading, 65536)
            if not piece:
                break
            said += piece
    finally:
        os.close(reading)
        for kill in (os.killpg, os.kill):
            with suppress(OSError):
                kill(child, signal.SIGKILL)
        status = os.waitpid(child, 0)[1]
    try:
        answer: dict[str, Any] = json.loads(said.decode())
    except ValueError:
        raise Unable(f"its process ended without an answer (wait status {status})") from None
    if "unable" in answer:
        raise Unable(str(answer["unable"]))
    return answer


def _work(
    work: Callable[[], dict[str, Any]], writing: int, environment: Mapping[str, str]
) -> NoReturn:
    """Output of loaders goes to standard error: standard output is for the document."""
    os.setpgid(0, 0)
    os.dup2(2, 1)
    os.environ.update(environment)
    try:
        answer = work()
    except Exception as error:  # noqa: BLE001 - any error of a foreign library is reported
        traceback.print_exc()
        answer = {"unable": f"{type(error).__name__}: {error}"[:LONGEST_WORDS]}
    with suppress(OSError):
        os.write(writing, json.dumps(answer).encode())
    os._exit(0)
