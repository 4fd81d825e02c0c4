"""What the console has loaded, with its age; a failed load keeps the earlier value and says why it failed."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Generic, TypeVar

from appliance.text import plural

T = TypeVar("T")
UNITS = ((86_400, "day"), (3600, "hour"), (60, "minute"))
"""Seconds. From two of a unit on, an age is told in it."""


def now() -> datetime:
    """The current time, in UTC."""
    return datetime.now(UTC)


@dataclass(frozen=True)
class Failure:
    """Why a load failed, and what to do: one line each."""

    cause: str
    fix: str = ""


@dataclass(frozen=True)
class Loaded(Generic[T]):
    """A value and when it was read. ``failure``: of the last load. ``is_loading``: a load is in progress."""

    value: T | None = None
    taken: datetime | None = None
    failure: Failure | None = None
    is_loading: bool = False

    def begun(self) -> "Loaded[T]":
        """The same while it is loaded again."""
        return replace(self, is_loading=True)

    def ended(self, result: T | Failure, time: datetime) -> "Loaded[T]":
        """After a load: the new value, or the earlier one with the failure."""
        if isinstance(result, Failure):
            return replace(self, failure=result, is_loading=False)
        return Loaded(result, time)

    def age(self, time: datetime) -> str:
        """``read 12 seconds ago``, ``not read yet``; a load in progress is mentioned."""
        said = "not read yet" if self.taken is None else f"read {ago(self.taken, time)}"
        return f"{said}, reading" if self.is_loading else said

    def short_age(self, time: datetime) -> str:
        """``12s``, ``3h``; ``-`` if nothing was read."""
        if self.taken is None:
            return "-"
        count, unit = _largest(self.taken, time)
        return f"{count}{unit[0]}"


def ago(then: datetime, time: datetime) -> str:
    """``12 seconds ago``, ``3 hours ago``; a time in the future counts as now."""
    count, unit = _largest(then, time)
    return f"{plural(count, unit)} ago"


def _largest(then: datetime, time: datetime) -> tuple[int, str]:
    seconds = max(0, int((time - then).total_seconds()))
    size, unit = next(((s, u) for s, u in UNITS if seconds >= 2 * s), (1, "second"))
    return seconds // size, unit
