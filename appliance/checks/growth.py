"""Counters that only ever grow: judged by the difference of two readings, against how much they may in a time."""

from dataclasses import dataclass
from datetime import datetime

from appliance.models.facts import HostFacts

LEAST_SECONDS = 60.0


@dataclass(frozen=True)
class Rate:
    """A counter may grow by ``count`` within ``seconds``; over a shorter time by no more than ``count`` either."""

    count: float
    seconds: float
    words: str

    def exceeded(self, growth: int, elapsed: float) -> bool:
        """Whether it grew more than it may."""
        return growth > self.count * max(1.0, elapsed / self.seconds) if self.count else growth > 0


NONE = Rate(0, 1.0, "none")


def unusable(before: HostFacts | None, now: HostFacts) -> str:
    """Why there is no difference to be taken; "" where there is."""
    if before is None:
        return "needs two readings: counters tell what came since they were last cleared, not when"
    if before.os.boot_id != now.os.boot_id:
        return "the host was started anew since the reading before; the next look can tell"
    if elapsed(before, now) < LEAST_SECONDS:
        return "the reading before is less than a minute old; look again later"
    return ""


def elapsed(before: HostFacts, now: HostFacts) -> float:
    """Seconds between two readings."""
    return (
        datetime.fromisoformat(now.taken) - datetime.fromisoformat(before.taken)
    ).total_seconds()


def duration(seconds: float) -> str:
    """As people say it."""
    return f"{seconds / 3600:.1f} h" if seconds >= 3600 else f"{seconds / 60:.0f} min"
