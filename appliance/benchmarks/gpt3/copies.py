"""Detects logs that belong to one and the same training, by their measurements, whatever the format of the file.

No two trainings have the same times step by step. The measurements of two logs are compared step by step, within the
printed digits, and with the rate at which values of other steps agree. A log with few digits, whose steps are all equal,
gives no evidence by its times.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isnan
from math import log as ln
from statistics import median

from appliance.benchmarks.gpt3.steps import AT_LEAST, UNNUMBERED, Log

MOST = 8192
"""Steps of a log that are kept for this comparison. Of a longer log, a half, a quarter ... selected by step number, so that parts of it are found."""
COMPARED = 2048
SHIFTS = 8
SURE = 12.0
"""Nats: two different trainings agree this well once in 160,000 cases by chance."""
ODD = 4
SCALES = (1, 8)
"""Maximum difference of two values, in halves of the last digit. Eight, if the last digit was changed."""
PROBE = 64
MISSES = 12
EPOCH = 1e8
"""Clocks with larger values count from 1970; others count from the start of a bar."""
NEXT = 2.0
"""Maximum ratio between the gap from the last step of one log to the first of the other and the duration of these steps."""
PAUSE = 3600.0
"""Seconds that a checkpoint or a validation may take between two logs."""
ZONES = 14 * 3600.0
"""Seconds by which clocks of two programs may differ. Text logs have local time, event files have seconds since 1970."""
ALIKE = 1.5
"""Maximum ratio of the median step times of two parts of one training."""


@dataclass(frozen=True)
class Trace:
    """The data of a log that is compared. ``numbers`` increase; without step numbers they are the order in the log."""

    source: str
    sha256: str
    family: str
    numbered: bool
    begins: int
    ends: int
    total: int | None
    resolution: float
    numbers: Sequence[int]
    seconds: Sequence[float]
    halves: Sequence[float]
    losses: Sequence[float]
    clocks: Sequence[float]


def trace(log: Log) -> Trace:
    """Returns the data of a log that is kept."""
    steps = log.steps
    steps.settle()
    numbered = steps.numbers[0] != UNNUMBERED
    numbers = steps.numbers if numbered else array("q", range(1, len(steps.seconds) + 1))
    stride = 1
    while len(numbers) > MOST * stride:
        stride *= 2
    at = [i for i, number in enumerate(numbers) if _scattered(number) % stride == 0]
    return Trace(
        source=log.source,
        sha256=log.sha256,
        family=log.family,
        numbered=numbered,
        begins=numbers[0],
        ends=numbers[-1],
        total=log.total,
        resolution=log.resolution,
        numbers=array("q", [numbers[i] for i in at]),
        seconds=array("d", [steps.seconds[i] for i in at]),
        halves=array("d", [steps.halves[i] for i in at]),
        losses=array("d", [steps.losses[i] for i in at]),
        clocks=array("d", [steps.clocks[i] for i in at]),
    )


def _scattered(number: int) -> int:
    """A hash of the step number, independent of logging intervals such as every tenth step."""
    return (number * 2654435761 & 0xFFFFFFFF) >> 7


def groups(traces: Sequence[Trace]) -> list[list[int]]:
    """Returns groups of indices; each group lists the logs of one training that has several."""
    leader = list(range(len(traces)))
    for i, one in enumerate(traces):
        for j in range(i):
            if leader[i] != leader[j] and same(traces[j], one):
                old, new = leader[i], leader[j]
                leader = [new if at == old else at for at in leader]
    found: dict[int, list[int]] = {}
    for i, first in enumerate(leader):
        found.setdefault(first, []).append(i)
    return [members for members in found.values() if len(members) > 1]


def same(one: Trace, other: Trace) -> bool:
    """Whether both logs belong to one training: the same file, the same measurements, or other steps of it."""
    if one.sha256 and one.sha256 == other.sha256:
        return True
    if parts(one, other):
        return True
    return any(map(_agrees, _paired(one, other)))


def parts(one: Trace, other: Trace) -> bool:
    """Whether they are different steps of one training: one part after the other, or interleaved."""
    if not (one.numbered and other.numbered) or _differ(one.total, other.total):
        return False
    return _follows(one, other) or _follows(other, one) or _interleaved(one, other)


def dated(one: Trace, other: Trace) -> bool:
    """Whether both logs have the times of their first and last steps, so that time can separate two trainings."""
    return all(
        not isnan(clock) and clock >= EPOCH
        for trace in (one, other)
        for clock in (trace.clocks[0], trace.clocks[-1])
    )


def _differ(one: int | None, other: int | None) -> bool:
    """Whether the planned numbers of steps differ. NeMo prints the number of the last one, counted from 0: a difference of 1 is none."""
    return one is not None and other is not None and abs(one - other) > 1


def _follows(first: Trace, then: Trace) -> bool:
    if not first.begins < then.begins or first.ends >= then.ends or _overlap(first, then):
        return False
    if not dated(first, then):
        apart = median(first.seconds), median(then.seconds)
        return max(apart) <= ALIKE * min(apart)
    passed = then.clocks[0] - first.clocks[-1]
    wanted = (then.numbers[0] - first.numbers[-1]) * max(first.seconds[-1], then.seconds[0])
    slack = first.resolution + then.resolution
    slack += 0 if first.family == then.family else ZONES
    least, most = sorted((wanted / NEXT, wanted * NEXT))
    return least - slack <= passed <= most + PAUSE + slack


def _overlap(first: Trace, then: Trace) -> bool:
    """Whether enough steps have the same time for a comparison."""
    ours = len(first.numbers) - bisect_left(first.numbers, then.begins)
    theirs = bisect_right(then.numbers, first.ends)
    return max(ours, theirs) >= AT_LEAST


def _interleaved(one: Trace, other: Trace) -> bool:
    low, high = max(one.numbers[0], other.numbers[0]), min(one.numbers[-1], other.numbers[-1])
    ours, theirs = (
        {number for number in trace.numbers if low <= number <= high} for trace in (one, other)
    )
    fewer = min(len(ours), len(theirs))
    return fewer >= AT_LEAST and len(ours & theirs) * 10 <= fewer


@dataclass(frozen=True)
class Pairs:
    """Two columns of values, and the maximum difference of equal values."""

    ours: Sequence[float]
    theirs: Sequence[float]
    slack: Sequence[float]


def _paired(one: Trace, other: Trace) -> Iterator[Pairs]:
    """Columns of the steps that both logs have: their times, and their losses if the times are equal."""
    ours, theirs = _common(one, other)
    yield from _columns(one, other, ours, theirs)
    for start in _begins_alike(one, other):
        count = min(len(one.seconds) - start, len(other.seconds), COMPARED)
        yield from _columns(one, other, range(start, start + count), range(count))
    for start in _begins_alike(other, one):
        count = min(len(other.seconds) - start, len(one.seconds), COMPARED)
        yield from _columns(one, other, range(count), range(start, start + count))


def _columns(
    one: Trace, other: Trace, ours: Sequence[int], theirs: Sequence[int]
) -> Iterator[Pairs]:
    usual = _usual([one.seconds[i] for i in ours])
    ours, theirs = [ours[k] for k in usual], [theirs[k] for k in usual]
    if len(ours) < AT_LEAST:
        return
    a, b = [one.seconds[i] for i in ours], [other.seconds[i] for i in theirs]
    slack = [
        one.halves[i] + other.halves[j] + 1e-7 * one.seconds[i]
        for i, j in zip(ours, theirs, strict=True)
    ]
    for scale in SCALES:
        yield Pairs(a, b, [scale * one for one in slack])
    a, b = [one.losses[i] for i in ours], [other.losses[i] for i in theirs]
    timed = [one.seconds[i] == other.seconds[j] for i, j in zip(ours, theirs, strict=True)]
    if a == b and all(timed):
        # All printed digits must agree.
        yield Pairs(a, b, [0.0] * len(a))


def _usual(seconds: Sequence[float]) -> list[int]:
    """Indices of typical steps. Trainings of one kind are slow at the same steps, where they start and save."""
    if not seconds:
        return []
    middle = median(seconds)
    spread = median(abs(one - middle) for one in seconds)
    return [i for i, one in enumerate(seconds) if abs(one - middle) <= ODD * spread]


def _common(one: Trace, other: Trace) -> tuple[list[int], list[int]]:
    """Indices of the steps with the same numbers in both logs."""
    low, high = max(one.numbers[0], other.numbers[0]), min(one.numbers[-1], other.numbers[-1])
    there = {
        other.numbers[j]: j
        for j in range(bisect_left(other.numbers, low), bisect_right(other.numbers, high))
    }
    both = [
        (i, there[one.numbers[i]])
        for i in range(bisect_left(one.numbers, low), bisect_right(one.numbers, high))
        if one.numbers[i] in there
    ][:COMPARED]
    return [i for i, _ in both], [j for _, j in both]


def _begins_alike(whole: Trace, part: Trace) -> Iterator[int]:
    """Possible offsets of one log in the other, for steps that were renumbered or have no numbers."""
    probe = min(PROBE, len(part.seconds))
    if probe < AT_LEAST:
        return
    for start in range(len(whole.seconds) - probe + 1):
        misses = 0
        for k in range(probe):
            i = start + k
            slack = whole.halves[i] + part.halves[k] + 1e-7 * part.seconds[k]
            misses += abs(whole.seconds[i] - part.seconds[k]) > slack
            if misses * MISSES > probe:
                break
        else:
            yield start
            return


def _agrees(pairs: Pairs) -> bool:
    """Whether values agree step by step far more often than values of different steps do."""
    count = len(pairs.ours)
    share = _agreeing(pairs, 0) / count
    shifts = range(1, min(SHIFTS, count - 1) + 1)
    by_chance = max(
        sum(_agreeing(pairs, shift) for shift in shifts) / sum(count - shift for shift in shifts),
        0.5 / count,
    )
    if by_chance >= 1 or share <= by_chance:
        return False
    missing = 1 - share
    if missing > (0.5 if by_chance <= 0.3 else 0.25) * (1 - by_chance):
        return False
    nats = share * ln(share / by_chance)
    if missing:
        nats += missing * ln(missing / (1 - by_chance))
    return nats * count >= SURE


def _agreeing(pairs: Pairs, shift: int) -> int:
    theirs = pairs.theirs[shift:]
    return sum(
        abs(a - b) <= slack for a, b, slack in zip(pairs.ours, theirs, pairs.slack, strict=False)
    )
