"""Steps that follow one another, with losses as their log prints them: most of a long log is let go of before anybody asks."""

from array import array
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from math import nan
from operator import add


class Known(dict[bytes, float]):
    """What texts amount to, each worked out once: a training prints few different times."""

    MOST = 1 << 14

    def __init__(self, value: Callable[[bytes], float]) -> None:
        super().__init__()
        self.value = value

    def __missing__(self, text: bytes) -> float:
        if len(self) >= self.MOST:
            self.clear()
        found = self[text] = self.value(text)
        return found


def _minute(text: bytes) -> float:
    """Seconds since 1970, by this machine's zone, as a stamp without one is taken."""
    return datetime.fromisoformat(text.decode()).timestamp()


MINUTES = Known(_minute)
SECONDS = Known(float)
BETWEEN = b";"


@dataclass(frozen=True)
class Stretch:
    """Columns of some steps. ``losses`` and ``clock_seconds`` are texts, joined.

    A program that prints no time has no ``minutes``; of one that counts seconds since 1970 they are these, without others.
    """

    numbers: "array[int]"
    seconds: "array[float]"
    halves: "array[float]"
    lines: "array[int]"
    losses: bytes
    minutes: "array[float]"
    clock_seconds: bytes

    def __len__(self) -> int:
        return len(self.numbers)

    def loss_values(self) -> "array[float]":
        """One of each step."""
        return array("d", [*map(float, self.losses.split(BETWEEN))])

    def clocks(self) -> "array[float]":
        """When each step was printed, in s since 1970; nan where nothing says."""
        if not self.minutes:
            return array("d", [nan]) * len(self)
        if not self.clock_seconds:
            return self.minutes
        seconds = map(SECONDS.__getitem__, self.clock_seconds.split(BETWEEN))
        return array("d", [*map(add, self.minutes, seconds)])
