"""Judges counters that only grow, by the difference of two readings against the allowed growth."""

from dataclasses import dataclass
from datetime import datetime

from appliance.models.facts import HostFacts

LEAST_SECONDS = 60.0


@dataclass(frozen=True)
class Rate:
    """A counter may grow by ``count`` within ``seconds``; over a shorter time, also by at most ``count``."""

    count: float
    seconds: float
    words: str

    def exceeded(self, growth: int, elapsed: float) -> bool:
        """Return whether it grew by more than that."""
        return growth > self.count * max(1.0, elapsed / self.seconds) if self.count else growth > 0


NONE = Rate(0, 1.0, "none")


def unusable(before: HostFacts | None, now: HostFacts) -> str:
    """Return why there is no valid difference; "" if there is one."""
    if before is None:
        return "needs two readings: counters do not contain the time of errors"
    if before.os.boot_id != now.os.boot_id:
        return "the host was rebooted since the previous reading; run the check again later"
    if elapsed(before, now) < LEAST_SECONDS:
        return "the previous reading is less than a minute old; run the check again later"
    return ""


def elapsed(before: HostFacts, now: HostFacts) -> float:
    """Return the seconds between two readings."""
    return (
        datetime.fromisoformat(now.taken) - datetime.fromisoformat(before.taken)
    ).total_seconds()


def duration(seconds: float) -> str:
    """Return it for people."""
    return f"{seconds / 3600:.1f} h" if seconds >= 3600 else f"{seconds / 60:.0f} min"
