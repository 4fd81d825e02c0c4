"""Reasons for draining hosts."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Self


class Why(StrEnum):
    """The reason for a drain; stored with the host, so that the next run recognizes it.

    Each begins with the word by which the stages recognize drains that they may end.
    """

    DRIVER = "appliance: the driver is changed"
    MIG = "appliance: GPUs are about to be divided"
    MOVE = "appliance: the host changes its owner"
    UPGRADE = "appliance: Kubernetes is upgraded"


HEALTH = "appliance: health: "
"""Prefix of the reason for a drain by the host's own watch, which ends it. The id of a check follows."""
CONTRADICTS = "appliance: facts contradict what was accepted: "
"""Prefix of the reason for a drain by the engine; a host never ends such a drain itself."""
MAINTENANCE = "appliance: maintenance: "
"""Prefix of the reason for a drain by an operator with ``node drain``; only an operator ends it."""
GIVEN_AWAY = "appliance: a host of "
"""Prefix of the reason for a drain in Slurm of a host that another scheduler owns."""
OWN = "appliance: "
"""Prefix of all reasons of this program."""
BY_SLURM = (
    "Not responding",
    "Node unexpectedly rebooted",
    "gres/gpu count",
    "Low RealMemory",
    "Low socket*core*thread count",
    "Low CPUs",
)
"""Beginnings of reasons that slurmctld gives by itself (22.05 to 24.11); also in the module slurm_node."""
WHY = re.compile(r"[\w .,:;/#@+&()-]{1,120}", re.ASCII)
"""An operator's reason: Slurm and Kubernetes both keep it as it is, and no shell or log reads more into it."""
_TEXT = re.compile(
    rf"{re.escape(MAINTENANCE)}(?P<why>.*) \(by (?P<who>[^\s()]+), (?P<since>[0-9-]{{10}} [0-9:]{{5}}) UTC\)(?: \[[^\]]*\])?"
)
_TIME = "%Y-%m-%d %H:%M"


@dataclass(frozen=True)
class Maintenance:
    """Planned work on a host, as its schedulers keep it: why, who began it, and when (UTC, to the minute)."""

    why: str
    who: str
    since: datetime

    def __str__(self) -> str:
        """Return the reason of the drain."""
        return f"{MAINTENANCE}{self.why} (by {self.who}, {self.since.astimezone(UTC).strftime(_TIME)} UTC)"

    @property
    def text(self) -> str:
        """Return it for people."""
        since = self.since.astimezone(UTC).strftime(_TIME)
        return f"in maintenance since {since} UTC by {self.who}: {self.why}"

    @classmethod
    def read(cls, reason: str) -> Self | None:
        """Return what a scheduler keeps, Slurm with its own ``[user@time]`` after it; None for the reason of another drain."""
        found = _TEXT.fullmatch(reason)
        if found is None:
            return None
        try:
            since = datetime.strptime(found["since"], _TIME).replace(tzinfo=UTC)
        except ValueError:
            return None
        return cls(found["why"], found["who"], since)
