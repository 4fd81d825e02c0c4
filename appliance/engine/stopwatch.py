"""Measures elapsed time, even if the control machine's clock is set meanwhile."""

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta


@dataclass(frozen=True)
class Stopwatch:
    """Runs from its creation. ``started``: the time of day at that moment."""

    started: datetime = field(default_factory=lambda: datetime.now(UTC))
    _since: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        """Return the elapsed time."""
        return time.monotonic() - self._since

    @property
    def now(self) -> datetime:
        """Return the time of day, ignoring changes of the clock since the start."""
        return self.started + timedelta(seconds=self.seconds)
