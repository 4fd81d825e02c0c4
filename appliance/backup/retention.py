"""Which backups stay: all of the last day, and the newest of each day before."""

from __future__ import annotations

import calendar
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

FORM = "%Y%m%dT%H%M%SZ"
DAY_S = 86400


def stamp(seconds: float) -> str:
    """The name of a backup of this moment, in seconds since 1970."""
    return time.strftime(FORM, time.gmtime(seconds))


def moment(name: str) -> int:
    """Seconds since 1970 of a backup's name. Raises ValueError."""
    return calendar.timegm(time.strptime(name, FORM))


def surplus(names: Iterable[str], newest: str, days: int) -> list[str]:
    """Backups to remove, counted from the newest: a wrong clock removes nothing else."""
    last = moment(newest)
    kept: dict[int, str] = {}
    removed = []
    for name in sorted(names, reverse=True):
        age = last - moment(name)
        if age < DAY_S:
            continue
        if age >= days * DAY_S or age // DAY_S in kept:
            removed.append(name)
        else:
            kept[age // DAY_S] = name
    return sorted(removed)
