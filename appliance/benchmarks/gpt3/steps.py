"""What a training log says: timed steps, lines that were refused, and which of the steps count."""

import re
from math import isfinite
from statistics import fmean, pstdev

from appliance.benchmarks.gpt3.printed import Printed
from appliance.errors import ConfigError
from appliance.models.base import Model

AT_LEAST = 7
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
NOT_FINITE = re.compile(r"[+-]?(nan|inf|infinity)(\.0*)?", re.IGNORECASE)
WINDOW = re.compile(r"window:(\d{1,9})-(\d{1,9})")
RULES = "take default, second-half or window:FIRST-LAST"
LONGEST = 40
"""Characters of a printed number."""


class UnusableLog(ConfigError):
    """A log that yields no figure, with the reason."""


class Refusal(Model):
    """A line whose value cannot be believed. ``diverged``: the training itself went wrong there."""

    line: int
    reason: str
    diverged: bool = False


class Step(Model):
    """One printed step time in s. ``number`` counts from 1; None where the log does not number steps."""

    number: int | None
    seconds: float
    line: int
    loss: float | None = None


class Log(Model):
    """One log as read. ``global_batch`` is None where the log does not print it."""

    source: str
    family: str
    steps: tuple[Step, ...] = ()
    refused: tuple[Refusal, ...] = ()
    global_batch: int | None = None
    notes: tuple[str, ...] = ()
    printed: Printed = Printed()


class Selection(Model):
    """The steps that count, and the rule that chose them in words."""

    rule: str
    steps: tuple[Step, ...]

    @property
    def seconds(self) -> float:
        """Mean step time in s."""
        return fmean(step.seconds for step in self.steps)

    @property
    def deviation(self) -> float:
        """Standard deviation of the step times in s."""
        return pstdev([step.seconds for step in self.steps])

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
    steps = tuple(by_number[n] for n in range(first, last + 1))
    return Selection(rule=f"steps {first}-{last} of {len(log.steps)}", steps=steps)
