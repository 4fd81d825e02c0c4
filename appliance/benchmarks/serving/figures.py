"""Percentiles and rates of one level of load, and the highest rate a server keeps up with."""

import math
import statistics
from collections.abc import Iterable, Sequence

from pydantic import Field

from appliance.benchmarks.serving.load import Level
from appliance.models.base import Model
from appliance.models.line import Line

KEPT = 0.9
"""Minimum share of a level's time that sending and the quickest answer take, if a server keeps up with the rate."""
GOOD = 0.99
"""Minimum share of correctly answered requests at such a rate."""
LATE_S = 0.5
"""A client that sends later than this did not offer the rate."""
LEAST = 20
"""Good answers below which a level's percentiles are not judged."""


class Figure(Model):
    """One level. Times in ms; TPOT is the time from the first token to the last over the tokens between.

    ``rate``: requested, requests/s, None if all were sent at once; ``late``: delay of the client, s; ``span``: from the
    first request to the last, s, None if unknown. ``least``: time of the quickest answer.
    """

    rate: float | None
    asked: int
    good: int
    seconds: float
    late: float | None = None
    span: float | None = None
    least: float = 0.0
    tokens: int
    prompt: int | None = None
    ttft: dict[int, float]
    tpot: dict[int, float]
    itl: dict[int, float]
    e2e: dict[int, float]
    refused: dict[Line, int] = Field(default_factory=dict)

    @property
    def throughput(self) -> float:
        """Output tokens/s."""
        return self.tokens / self.seconds if self.seconds else 0.0

    @property
    def answers(self) -> float:
        """Good answers/s."""
        return self.good / self.seconds if self.seconds else 0.0

    @property
    def kept(self) -> bool:
        """Whether the server kept up with the requested rate."""
        if self.rate is None or not self.asked or self.good < GOOD * self.asked:
            return False
        span = self.asked / self.rate if self.span is None else self.span
        # A queue that grows shows in the time from the last request to the last answer.
        return span + self.least / 1000 >= KEPT * self.seconds


def figure(level: Level) -> Figure:
    """The result of a level of our own client."""
    done = level.done
    counted = [one.prompt for one in done if one.prompt is not None]
    between = [
        (one.total - one.first) / (one.tokens - 1) for one in done if one.tokens > 1 and one.gaps
    ]
    return Figure(
        rate=level.rate,
        asked=level.asked,
        good=len(done),
        seconds=level.seconds,
        late=level.late,
        span=level.span,
        least=min((one.total for one in done), default=0.0) * 1000,
        tokens=sum(one.tokens for one in done),
        prompt=round(statistics.mean(counted)) if counted else None,
        ttft=_percentiles(one.first for one in done),
        tpot=_percentiles(between),
        itl=_percentiles(gap for one in done for gap in one.gaps),
        e2e=_percentiles(one.total for one in done),
        refused=dict(level.refused),
    )


def _percentiles(seconds: Iterable[float]) -> dict[int, float]:
    ordered = sorted(seconds)
    return {share: percentile(ordered, share) * 1000 for share in (50, 90, 99)} if ordered else {}


def percentile(ordered: Sequence[float], share: int) -> float:
    """Nearest rank: the least value that ``share`` % do not exceed."""
    return ordered[max(0, math.ceil(len(ordered) * share / 100) - 1)]


def saturation(figures: Iterable[Figure]) -> Figure | None:
    """The highest rate that was kept, with every lower one; None where not even the lowest was."""
    found = None
    for one in sorted((f for f in figures if f.rate is not None), key=lambda f: f.rate or 0):
        if not one.kept:
            break
        found = one
    return found
