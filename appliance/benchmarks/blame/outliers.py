"""Detects outliers among peers: robust, and without a verdict if there are too few peers."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from statistics import median

from appliance.text import plural

EQUALS = 4
"""Fewest equals that name an outlier: of three, two that happen to agree would condemn the third."""

SCORE = 3.5
"""Modified z-score of an outlier (Iglewicz and Hoaglin, How to Detect and Handle Outliers, 1993)."""

NORMAL = 0.6745
"""Median absolute deviation of a normal distribution, in standard deviations."""


@dataclass(frozen=True)
class Outlier:
    """One that is worse than its equals: its value, theirs, and by how many percent it is worse."""

    name: str
    value: float
    median: float
    percent: float


@dataclass(frozen=True)
class Compared:
    """``outliers``: the worst first. ``why``: the reason why none can be named; "" if the peers could be compared."""

    outliers: tuple[Outlier, ...] = ()
    why: str = ""


def compare(values: Mapping[str, float], *, least: float, more_is_better: bool = True) -> Compared:
    """Returns the peers whose value is worse than the median by ``least`` percent, and by more than the usual variation.

    Values are positive and have one unit. More than half of the peers are assumed to be good. If values differ by
    ``least`` and no minority explains it, none is named and ``why`` gives the reason. An implausible value (zero,
    not finite) does not belong to a peer: its host is judged separately, and it hides no other.
    """
    values = {name: value for name, value in values.items() if isfinite(value) and value > 0}
    if len(values) < EQUALS:
        return Compared(
            why=f"{plural(len(values), 'equal')}; {EQUALS} are needed to identify an outlier"
        )
    middle = median(values.values())
    noise = median(abs(value - middle) for value in values.values())
    sign = 1 if more_is_better else -1
    found = [
        Outlier(name, value, middle, short / middle * 100)
        for name, value in values.items()
        if (short := sign * (middle - value)) >= middle * least / 100
        and NORMAL * short > SCORE * noise
    ]
    found.sort(key=lambda outlier: (-outlier.percent, outlier.name))
    if not found and _worst(values, middle, sign) >= least:
        spread = (max(values.values()) - min(values.values())) / middle * 100
        why = (
            f"they differ by {spread:.0f} %, but not because of a few: no outlier can be identified"
        )
        return Compared(why=why)
    return Compared(tuple(found))


def _worst(values: Mapping[str, float], middle: float, sign: int) -> float:
    """By how many percent the worst value is worse than the median."""
    return max(sign * (middle - value) for value in values.values()) / middle * 100
