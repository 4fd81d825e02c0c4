"""What another machine sends over HTTP, up to a number of bytes and within a time for all of it."""

from __future__ import annotations

import signal
import time
from contextlib import contextmanager

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, Protocol

    class Answer(Protocol):
        """An open connection."""

        def read1(self, size: int, /) -> bytes:
            """What has come, up to so many bytes."""


PIECE = 1 << 16
AGAIN = 1.0
"""Seconds after which a library that took the end of the time for something else is told again."""


def downloaded(opened: Callable[[], Answer], most: int, seconds: float) -> bytes:
    """What ``opened`` gives, cut behind ``most`` bytes. Raises TimeoutError where it is not all here in time.

    The timeout of a socket is for each read: a server that sends a byte now and then, of a header, too, is never late.
    """
    deadline = time.monotonic() + seconds
    parts: list[bytes] = []
    left = most
    with ended_after(seconds):
        answer = opened()
        while left:
            part = answer.read1(min(left, PIECE))
            if not part:
                break
            if time.monotonic() > deadline:
                raise _late(seconds)
            parts.append(part)
            left -= len(part)
    return b"".join(parts)


@contextmanager
def ended_after(seconds: float) -> Iterator[None]:
    """Ends with TimeoutError what takes longer, wherever it waits. In a module's main thread alone: there it gets signals."""

    def end(_number: int, _frame: Any) -> None:
        raise _late(seconds)

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _late(seconds: float) -> TimeoutError:
    return TimeoutError(f"it was not whole within {seconds:g} s")
