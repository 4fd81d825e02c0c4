"""The scheduler of a host as a drain sees it: Slurm or Kubernetes."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from appliance.engine.session import Session
from appliance.errors import ApplianceError
from appliance.models.drain import Why
from appliance.models.site import Owner


@dataclass(frozen=True)
class Workload:
    """Work that blocks a drain. ``is_ending``: it was asked to end and will, within its grace period."""

    text: str
    is_ending: bool = False

    def __str__(self) -> str:
        """Return its text for people."""
        return f"{self.text} (is ending)" if self.is_ending else self.text


@dataclass(frozen=True)
class SchedulerHost:
    """A host as one scheduler sees it. ``owner``: its owner in the scheduler's view, None while we drain it.

    ``reason``: of its drain or cordon; "" also if it has none.
    """

    owner: Owner | None
    gives: bool
    said: str
    work: tuple[str, ...] = ()
    reason: str = ""


class Scheduler(Protocol):
    """A scheduler of hosts. All methods raise ApplianceError; an unknown host has no work."""

    owner: Owner

    def look(self, host: str) -> SchedulerHost | None:
        """Return the host's state; None if the scheduler does not know it."""
        ...

    def take_out(self, host: str, why: str, over: "Ours | None" = None) -> None:
        """Stop new work on the host. A drain whose reason is not ``over``'s stays as it is; default: an operator's."""
        ...

    def clear(self, host: str, force: bool) -> list[Workload]:
        """Do what is allowed now to free the host; return the remaining work.

        ``force``: consent to end work that would run to its end.
        """
        ...

    def give_back(self, host: str, ours: "Ours | None" = None) -> None:
        """Return the host to work if the drain is ``ours``; default: of a change by this program."""
        ...

    def forget(self, host: str) -> None:
        """Delete what the scheduler itself keeps of a host that leaves the site."""
        ...


Ours = Callable[[str], bool]
"""Whether a drain of this reason may be replaced or ended."""


def is_ours(reason: str) -> bool:
    """Return whether a drain has one of our reasons."""
    return reason in set(Why)


NOT_AT_WORK = frozenset({"inactive", "unknown"})
"""States of a systemd unit that is stopped or absent; processes of a failed unit may still run."""


def runs(session: Session, host: str, unit: str) -> bool:
    """Return whether a service, or processes it left, may run on a host; an unknown state counts as running."""
    try:
        done = session.remote.run(host, ["systemctl", "is-active", unit], timeout=30)
    except ApplianceError:
        return True
    return done.stdout.strip() not in NOT_AT_WORK
