"""The content of a training log: timed steps, refused lines, and the steps that count."""

import re
from array import array
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import isfinite, isnan, nan, sqrt
from statistics import fmean
from typing import overload

from appliance.benchmarks.gpt3.printed import Printed
from appliance.benchmarks.gpt3.stretch import Stretch
from appliance.errors import ConfigError
from appliance.text import plural

AT_LEAST = 7
WARM_UP = 5
"""Number of first values that never count, because they include the start."""
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
NOT_FINITE = re.compile(r"[+-]?(nan|inf|infinity)(\.0*)?", re.IGNORECASE)
WINDOW = re.compile(r"window:(\d{1,9})-(\d{1,9})")
RULES = "use default, second-half or window:FIRST-LAST"
LONGEST = 40
"""Maximum length of a printed number, in characters."""
KEPT = 100
"""Number of refused lines that are kept per log."""
UNNUMBERED = -1
COLUMNS = ("seconds", "halves", "clocks", "losses", "numbers", "lines")
MOST_STEPS = 500_000
"""Number of latest steps that are kept per log. Of the 600,000 steps of 126M, these are all that the default rule counts."""
SLACK = 8192
"""Number of steps that may exceed it, so that steps are not dropped one by one."""


class UnusableLog(ConfigError):
    """A log without a usable result, with the reason."""


@dataclass(frozen=True)
class Refusal:
    """A line with an implausible value. ``diverged``: the training itself diverged there."""

    line: int
    reason: str
    diverged: bool = False


@dataclass
class Refusals:
    """Refused lines: their number and the first of them, including the first diverged one."""

    count: int = 0
    first: list[Refusal] = field(default_factory=list)
    diverged: bool = False

    def add(self, refusal: Refusal) -> None:
        """A diverged run refuses every later step, so not all of them are kept."""
        self.count += 1
        if len(self.first) < KEPT or (refusal.diverged and not self.diverged):
            self.first.append(refusal)
        self.diverged |= refusal.diverged


@dataclass(frozen=True, slots=True)
class Step:
    """One printed step time in s. ``number`` counts from 1; None if the log does not number steps.

    ``half``: half a unit of its last digit in s, the maximum difference from the time before printing.
    ``clock``: time of printing, in s from an arbitrary start.
    """

    number: int | None
    seconds: float
    line: int
    loss: float | None = None
    half: float = 0.0
    clock: float | None = None


class Steps(Sequence[Step]):
    """The latest steps, in 48 bytes each: a log of months has millions. ``dropped``: the number of steps before these.

    The columns are complete only if ``later`` is empty; ``settle`` moves its steps to the columns.
    """

    def __init__(self, steps: Iterable[Step] = ()) -> None:
        self.seconds = array("d")
        self.halves = array("d")
        self.clocks = array("d")
        self.losses = array("d")
        self.numbers = array("q")
        self.lines = array("q")
        self.later: deque[Stretch] = deque()
        self._count_later = 0
        self.dropped = 0
        for step in steps:
            self.append(step)

    def append(self, step: Step) -> None:
        """Appends one step."""
        self.settle()
        self.seconds.append(step.seconds)
        self.halves.append(step.half)
        self.clocks.append(nan if step.clock is None else step.clock)
        self.losses.append(nan if step.loss is None else step.loss)
        self.numbers.append(UNNUMBERED if step.number is None else step.number)
        self.lines.append(step.line)

    def extend(self, stretch: Stretch) -> None:
        """Appends many steps; the columns are completed later."""
        self.later.append(stretch)
        self._count_later += len(stretch)

    def bound(self) -> None:
        """Drops the first steps if there are more than the limit."""
        before = len(self)
        if (over := before - MOST_STEPS) > SLACK:
            settled = len(self.seconds)
            for column in self._columns():
                del column[:over]
            over -= settled
            while self.later and len(self.later[0]) <= over:
                over -= len(self._first_later())
            self.dropped += before - len(self)

    def pop(self) -> None:
        """Removes the last step."""
        self.settle()
        for column in self._columns():
            column.pop()

    def settle(self) -> None:
        """Moves the steps of ``later`` to the columns."""
        if not self.later:
            return
        at, total = len(self.seconds), len(self)
        for column in self._columns():
            # Allocate the full length at once: six columns that grow side by side leave gaps of their own size.
            column.frombytes(bytes((total - at) * column.itemsize))
        while self.later:
            stretch = self._first_later()
            to = slice(at, at := at + len(stretch))
            self.seconds[to] = stretch.seconds
            self.halves[to] = stretch.halves
            self.clocks[to] = stretch.clocks()
            self.losses[to] = stretch.loss_values()
            self.numbers[to] = stretch.numbers
            self.lines[to] = stretch.lines

    def _first_later(self) -> Stretch:
        first = self.later.popleft()
        self._count_later -= len(first)
        return first

    def _columns(self) -> list["array[float] | array[int]"]:
        return [getattr(self, name) for name in COLUMNS]

    @overload
    def __getitem__(self, index: int) -> Step: ...

    @overload
    def __getitem__(self, index: slice) -> "Steps": ...

    def __getitem__(self, index: int | slice) -> "Step | Steps":
        self.settle()
        if isinstance(index, slice):
            return self._part(index)
        number, loss, clock = self.numbers[index], self.losses[index], self.clocks[index]
        return Step(
            number=None if number == UNNUMBERED else number,
            seconds=self.seconds[index],
            line=self.lines[index],
            loss=None if isnan(loss) else loss,
            half=self.halves[index],
            clock=None if isnan(clock) else clock,
        )

    def __len__(self) -> int:
        return len(self.seconds) + self._count_later

    def _part(self, wanted: slice) -> "Steps":
        """Shares the columns: these steps must not grow afterwards."""
        part = Steps()
        for name in COLUMNS:
            setattr(part, name, memoryview(getattr(self, name))[wanted])
        return part


@dataclass
class Samples:
    """Consumed samples as the program counts them, first and last: (step, samples, half a unit of the last digit)."""

    first: tuple[int, float, float] | None = None
    last: tuple[int, float, float] | None = None

    def add(self, step: int, samples: float, half: float) -> None:
        """Adds the samples that were consumed up to a step."""
        self.last = (step, samples, half)
        self.first = self.first or self.last

    @classmethod
    def counted(cls, step: float, samples: float, share: float) -> "Samples":
        """Counted from the start, both known with the relative error ``share``."""
        return cls((0, 0.0, 0.0), (max(1, round(step)), samples, samples * share))

    def per_step(self) -> tuple[float, float] | None:
        """Samples per step, minimum and maximum; None if two steps are not sufficient."""
        if self.first is None or self.last is None or self.last[0] <= self.first[0]:
            return None
        steps, slack = self.last[0] - self.first[0], self.first[2] + self.last[2]
        grown = self.last[1] - self.first[1]
        return (grown - slack) / steps, (grown + slack) / steps


@dataclass(frozen=True)
class Log:
    """One log as read. ``global_batch`` is None if the log does not print it.

    ``tflops``: per GPU, as the program prints it; ``resolution``: of its clock, in s; ``total``: planned number of steps.
    ``sha256`` and ``size`` describe the file.
    """

    source: str
    family: str
    steps: Steps
    refused: Refusals = field(default_factory=Refusals)
    global_batch: int | None = None
    notes: tuple[str, ...] = ()
    printed: Printed = field(default_factory=Printed)
    samples: Samples = field(default_factory=Samples)
    tflops: float | None = None
    resolution: float = 1.0
    total: int | None = None
    sha256: str = ""
    size: int = 0


@dataclass(frozen=True)
class Selection:
    """The steps that count, and a description of the rule that selected them."""

    rule: str
    steps: Steps

    @property
    def seconds(self) -> float:
        """Mean step time in s."""
        return fmean(self.steps.seconds)

    @property
    def deviation(self) -> float:
        """Standard deviation of the step times in s."""
        # statistics.pstdev uses exact fractions. For a long log this takes a second, and changes no printed digit.
        mean = self.seconds
        return sqrt(fmean((seconds - mean) ** 2 for seconds in self.steps.seconds))

    @property
    def rounding(self) -> float:
        """Maximum difference in s between this mean and the mean of the times before printing."""
        return fmean(self.steps.halves)

    @property
    def lines(self) -> str:
        """Their lines in the log, such as "12-40"."""
        return f"{self.steps[0].line}-{self.steps[-1].line}"


def number(text: str) -> float:
    """Parses a finite number, with exponent. Raises ValueError with the text that is not a number."""
    if len(text) > LONGEST:
        raise ValueError(f"has {len(text):,} characters, which is not a number")
    if not NUMBER.fullmatch(text):
        if NOT_FINITE.fullmatch(text):
            raise ValueError(f"is {text}")
        raise ValueError(f"reads {text!r}, which is not a number")
    if not isfinite(found := float(text)):
        raise ValueError(f"is {text}, which is too large")
    return found


def half_unit(text: str, significant: int = 0) -> float:
    """Half a unit of the last significant digit of a printed number.

    If a format keeps ``significant`` digits, zeros after them have no meaning, and missing ones were cut off.
    """
    mantissa, _, exponent = text.lower().partition("e")
    digits = mantissa.lstrip("+-")
    # The exponent of a printed zero has no meaning, and may have any value.
    power = int(exponent or 0) if digits.strip("0.") else 0
    if significant:
        whole, _, decimals = digits.partition(".")
        shown = (whole + decimals).lstrip("0").rstrip("0")
        keep = max(significant, len(shown))
        lead = len(whole.lstrip("0")) or len(decimals.lstrip("0")) - len(decimals)
        return 0.5 * 10.0 ** (power + lead - keep)
    return 0.5 * 10.0 ** (power - len(digits.partition(".")[2]))


def one_batch(sizes: Iterable[int], source: str) -> int | None:
    """Returns the global batch that a log prints; None if it prints none. Raises UnusableLog if it changes."""
    batches = sorted(set(sizes))
    if len(batches) > 1:
        raise UnusableLog(
            f"{source}: the global batch changes ({', '.join(map(str, batches))})",
            "use a run without batch ramp-up, or the part of the log with one batch size",
        )
    return next(iter(batches), None)


def is_rule(rule: str) -> bool:
    """Whether ``select`` accepts this rule."""
    return rule in {"default", "second-half"} or WINDOW.fullmatch(rule) is not None


def select(log: Log, rule: str = "default") -> Selection:
    """Returns the steps that count. Raises UnusableLog if too few remain.

    ``default`` drops the first 5 values or 20 %, whichever is more, and needs more than 6 (NeMo's autoconfigurator
    drops 5 and needs more than 6). ``second-half`` is the rule of NeMo's performance callback. ``window:35-44`` takes
    exactly these step numbers, as dgxc-benchmarking does. No rule may start in the warm-up.
    """
    if not log.refused.diverged and log.refused.count * 10 > log.steps.dropped + len(log.steps):
        first = log.refused.first[0]
        raise UnusableLog(
            f"{log.source}: {plural(log.refused.count, 'value is', 'values are')} invalid, {len(log.steps)} are valid "
            f"(line {first.line}: {first.reason})",
            "find out what damaged this log, then use an intact one",
        )
    if window := WINDOW.fullmatch(rule):
        return _window(log, int(window[1]), int(window[2]))
    if not is_rule(rule):
        raise UnusableLog(f"there is no skip rule {rule!r}", RULES)
    total = log.steps.dropped + len(log.steps)
    drop = total // 2 if rule == "second-half" else max(WARM_UP, -(-total // 5))
    drop = max(drop, log.steps.dropped)
    kept = log.steps[drop - log.steps.dropped :]
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
            f"only the last {len(log.steps)} steps of this long log are kept: choose a later window"
            if log.steps.dropped
            else "log every step, or choose a window the run covers",
        )
    begun = log.steps[0].number or 1
    if first < begun + WARM_UP:
        raise UnusableLog(
            f"{log.source}: steps {first}-{last} count the warm-up: the run began at step {begun}",
            f"choose a window from step {begun + WARM_UP} on",
        )
    if last + 1 - first < AT_LEAST:
        raise UnusableLog(
            f"{log.source}: steps {first}-{last} are {last + 1 - first}; {AT_LEAST} are needed",
            "choose a longer window",
        )
    steps = Steps(by_number[n] for n in range(first, last + 1))
    return Selection(rule=f"steps {first}-{last} of {len(log.steps)}", steps=steps)
