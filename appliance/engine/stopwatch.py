"""When something began, and how long ago: the clock of the control machine may be set meanwhile."""

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta


@dataclass(frozen=True)
class Stopwatch:
    """Runs from the moment it is made. ``started``: the time of day then."""

    started: datetime = field(default_factory=lambda: datetime.now(UTC))
    _since: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        """How long it has been running."""
        return time.monotonic() - self._since

    @property
    def now(self) -> datetime:
        """The time of day, as the clock would show it had nobody set it since."""
        return self.started + timedelta(seconds=self.seconds)
