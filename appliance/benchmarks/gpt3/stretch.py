"""Consecutive steps, with losses as their log prints them. Most steps of a long log are dropped before they are needed, so conversion is lazy."""

from array import array
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from math import nan
from operator import add


class Known(dict[bytes, float]):
    """Values of texts, each computed once. A training prints few different times."""

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
    """Seconds since 1970. A stamp without a zone is read in this machine's zone."""
    return datetime.fromisoformat(text.decode()).timestamp()


MINUTES = Known(_minute)
SECONDS = Known(float)
BETWEEN = b";"


@dataclass(frozen=True)
class Stretch:
    """Columns of some steps. ``losses`` and ``clock_seconds`` are joined texts.

    ``minutes`` is empty for a program that prints no time. For one that prints seconds since 1970, it holds those.
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
        """Returns one value per step."""
        return array("d", [*map(float, self.losses.split(BETWEEN))])

    def clocks(self) -> "array[float]":
        """Returns the time of printing of each step, in s since 1970; nan if unknown."""
        if not self.minutes:
            return array("d", [nan]) * len(self)
        if not self.clock_seconds:
            return self.minutes
        seconds = map(SECONDS.__getitem__, self.clock_seconds.split(BETWEEN))
        return array("d", [*map(add, self.minutes, seconds)])
