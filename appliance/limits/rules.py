"""Decides what to do about a workload: pure functions; unknown facts never end work."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, NamedTuple

from appliance.limits.trouble import Unknown

if TYPE_CHECKING:
    from collections.abc import Callable

    from appliance.limits.pods import Pod, Work

UNITS = {"m": 60, "h": 3600, "d": 86400}
DURATION = re.compile(r"([1-9]\d{0,4})([mhd])")
LONGEST_NOTICE_S = 900.0
AHEAD_S = 60.0
"""A pod that starts more than this much in the future means that a clock is wrong."""
TIME, IDLE = "time", "idle"


class Limits(NamedTuple):
    """The limits of one queue, in seconds; None: no such limit."""

    time: float | None
    idle: float | None


class Due(NamedTuple):
    """A limit that is reached in ``left`` seconds, or was (0 or less)."""

    limit: str
    seconds: float
    left: float

    @property
    def notice(self) -> float:
        """Seconds between the warning and the end, at least."""
        return min(self.seconds / 10, LONGEST_NOTICE_S)


def parse(said: str) -> tuple[str, Limits]:
    """A queue and its limits from the cluster's objects. Raises Unknown."""
    try:
        given = json.loads(said)
        return str(given["queue"]), Limits(
            _seconds(given.get("timeLimit")), _seconds(given.get("idleLimit"))
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        raise Unknown("the limits of a queue cannot be read") from None


def time_due(work: Work, limit: float, now: float) -> Due | None:
    """The time limit once its warning period has begun, counted from the oldest unfinished pod. Raises Unknown."""
    starts = _starts(work, now)
    return _begun(Due(TIME, limit, limit - (now - min(starts)))) if starts else None


def idle_due(
    work: Work, limit: float, now: float, idle: Callable[[Pod, float], float]
) -> Due | None:
    """The idle limit once its warning period has begun. ``idle(pod, limit)`` is called only if it matters. Raises Unknown."""
    if not _starts(work, now) or not _long_enough(work, limit, now):
        return None
    return _begun(
        Due(IDLE, limit, limit - min(_idle(p, limit, idle) for p in work.pods if _has_gpu(p)))
    )


def _starts(work: Work, now: float) -> list[float]:
    if any(pod.phase == "Running" and pod.started is None for pod in work.pods):
        raise Unknown("a pod runs without a start time")
    starts = [pod.started for pod in work.pods if pod.started is not None]
    if starts and max(starts) > now + AHEAD_S:
        raise Unknown("a pod starts in the future: a clock is wrong")
    return starts


def _begun(due: Due) -> Due | None:
    return due if due.left <= due.notice else None


def _long_enough(work: Work, limit: float, now: float) -> bool:
    """Whether all of it has run for as long as the limit: younger or waiting pods are not idle."""
    holders = [pod for pod in work.pods if _has_gpu(pod)]
    running = all(
        p.phase == "Running" and p.started is not None and now - p.started >= limit
        for p in work.pods
    )
    return bool(holders) and running


def _idle(pod: Pod, limit: float, idle: Callable[[Pod, float], float]) -> float:
    if pod.shared:
        raise Unknown("it has a fraction of a GPU, and metrics do not show the use of each pod")
    return idle(pod, limit)


def _has_gpu(pod: Pod) -> bool:
    return pod.gpus > 0 or pod.shared


def _seconds(said: str | None) -> float | None:
    if said is None:
        return None
    found = DURATION.fullmatch(said)
    if not found:
        raise ValueError(said)
    return float(int(found.group(1)) * UNITS[found.group(2)])


def words(seconds: float) -> str:
    """A duration for people, such as 8 h or 30 min."""
    for size, unit in ((3600, "h"), (60, "min")):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:g} {unit}"
    return f"{seconds:.0f} s"
