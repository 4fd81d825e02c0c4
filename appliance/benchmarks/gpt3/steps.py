"""What a training log says: timed steps, lines that were refused, and which of the steps count."""

import re
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import isfinite, isnan, nan
from statistics import fmean, pstdev
from typing import overload

from appliance.benchmarks.gpt3.printed import Printed
from appliance.errors import ConfigError

AT_LEAST = 7
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
NOT_FINITE = re.compile(r"[+-]?(nan|inf|infinity)(\.0*)?", re.IGNORECASE)
WINDOW = re.compile(r"window:(\d{1,9})-(\d{1,9})")
RULES = "take default, second-half or window:FIRST-LAST"
LONGEST = 40
"""Characters of a printed number."""
KEPT = 100
"""Refused lines of one log that are kept."""
UNNUMBERED = -1


class UnusableLog(ConfigError):
    """A log that yields no figure, with the reason."""


@dataclass(frozen=True)
class Refusal:
    """A line whose value cannot be believed. ``diverged``: the training itself went wrong there."""

    line: int
    reason: str
    diverged: bool = False


@dataclass
class Refusals:
    """Refused lines: how many, and the first of them, the first diverged one included."""

    count: int = 0
    first: list[Refusal] = field(default_factory=list)
    diverged: bool = False

    def add(self, refusal: Refusal) -> None:
        """A diverged run refuses every step it still makes: not all of them are kept."""
        self.count += 1
        if len(self.first) < KEPT or (refusal.diverged and not self.diverged):
            self.first.append(refusal)
        self.diverged |= refusal.diverged


@dataclass(frozen=True, slots=True)
class Step:
    """One printed step time in s. ``number`` counts from 1; None where the log does not number steps."""

    number: int | None
    seconds: float
    line: int
    loss: float | None = None


class Steps(Sequence[Step]):
    """Steps in 32 bytes each: a log of months has millions."""

    def __init__(self, steps: Iterable[Step] = ()) -> None:
        self.seconds = array("d")
        self._losses = array("d")
        self._numbers = array("q")
        self._lines = array("q")
        for step in steps:
            self.append(step)

    def append(self, step: Step) -> None:
        """Adds one behind the others."""
        self.seconds.append(step.seconds)
        self._losses.append(nan if step.loss is None else step.loss)
        self._numbers.append(UNNUMBERED if step.number is None else step.number)
        self._lines.append(step.line)

    def pop(self) -> None:
        """Takes the last one away."""
        for column in (self.seconds, self._losses, self._numbers, self._lines):
            column.pop()

    @overload
    def __getitem__(self, index: int) -> Step: ...

    @overload
    def __getitem__(self, index: slice) -> "Steps": ...

    def __getitem__(self, index: int | slice) -> "Step | Steps":
        if isinstance(index, slice):
            return self._part(index)
        number, loss = self._numbers[index], self._losses[index]
        return Step(
            number=None if number == UNNUMBERED else number,
            seconds=self.seconds[index],
            line=self._lines[index],
            loss=None if isnan(loss) else loss,
        )

    def __len__(self) -> int:
        return len(self.seconds)

    def _part(self, wanted: slice) -> "Steps":
        part = Steps()
        part.seconds = self.seconds[wanted]
        part._losses = self._losses[wanted]
        part._numbers = self._numbers[wanted]
        part._lines = self._lines[wanted]
        return part


@dataclass(frozen=True)
class Log:
    """One log as read. ``global_batch`` is None where the log does not print it."""

    source: str
    family: str
    steps: Steps
    refused: Refusals = field(default_factory=Refusals)
    global_batch: int | None = None
    notes: tuple[str, ...] = ()
    printed: Printed = field(default_factory=Printed)


@dataclass(frozen=True)
class Selection:
    """The steps that count, and the rule that chose them in words."""

    rule: str
    steps: Steps

    @property
    def seconds(self) -> float:
        """Mean step time in s."""
        return fmean(self.steps.seconds)

    @property
    def deviation(self) -> float:
        """Standard deviation of the step times in s."""
        return pstdev(self.steps.seconds)

    @property
    def lines(self) -> str:
        """Where they stand in the log, as "12-40"."""
        return f"{self.steps[0].line}-{self.steps[-1].line}"


def number(text: str) -> float:
    """A finite number, exponents included. Raises ValueError saying what stands there instead."""
    if NOT_FINITE.fullmatch(text):
        raise ValueError(f"is {text}")
    if len(text) > LONGEST:
        raise ValueError(f"has {len(text):,} characters, which is no number")
    if not NUMBER.fullmatch(text):
        raise ValueError(f"reads {text!r}, which is no number")
    if not isfinite(found := float(text)):
        raise ValueError(f"is {text}, which is too large")
    return found


def is_rule(rule: str) -> bool:
    """Whether ``select`` knows this rule."""
    return rule in {"default", "second-half"} or WINDOW.fullmatch(rule) is not None


def select(log: Log, rule: str = "default") -> Selection:
    """The steps that count. Raises UnusableLog where too few are left.

    ``default`` drops the first 5 values or 20 %, whichever is more, and needs more than 6 (NeMo's autoconfigurator
    drops 5 and needs more than 6); ``second-half`` is NeMo's performance callback's; ``window:35-44`` takes
    these step numbers and all of them, as dgxc-benchmarking does.
    """
    if window := WINDOW.fullmatch(rule):
        return _window(log, int(window[1]), int(window[2]))
    if not is_rule(rule):
        raise UnusableLog(f"there is no skip rule {rule!r}", RULES)
    total = len(log.steps)
    drop = total // 2 if rule == "second-half" else max(5, -(-total // 5))
    kept = log.steps[drop:]
    if len(kept) < AT_LEAST:
        raise UnusableLog(
            f"{log.source}: {total} step times, {len(kept)} left after the first {drop} are dropped; {AT_LEAST} are needed",
            "train longer (30 to 50 steps are enough) and log every step",
        )
    return Selection(rule=f"{rule}: dropped the first {drop} of {total}", steps=kept)


def _window(log: Log, first: int, last: int) -> Selection:
    by_number = {step.number: step for step in log.steps}
    missing = [n for n in range(first, last + 1) if n not in by_number]
    if missing or last < first:
        raise UnusableLog(
            f"{log.source}: steps {', '.join(map(str, missing[:5])) or 'none'} of {first}-{last} are missing",
            "log every step, or choose a window the run covers",
        )
    steps = Steps(by_number[n] for n in range(first, last + 1))
    return Selection(rule=f"steps {first}-{last} of {len(log.steps)}", steps=steps)
