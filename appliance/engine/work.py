"""What gives a host its work, as a drain sees it: Slurm, or Kubernetes."""

from dataclasses import dataclass
from typing import Protocol

from appliance.engine.session import Session
from appliance.errors import ApplianceError
from appliance.models.drain import Why
from appliance.models.site import Owner


@dataclass(frozen=True)
class Work:
    """What stands in the way of a drain. ``is_ending``: it was told to end and will, in its own grace period."""

    text: str
    is_ending: bool = False

    def __str__(self) -> str:
        """As people read it."""
        return f"{self.text} (is ending)" if self.is_ending else self.text


@dataclass(frozen=True)
class Held:
    """A host as one scheduler has it. ``owner``: who gives it work in the scheduler's eyes, None while it is drained by us."""

    owner: Owner | None
    gives: bool
    said: str
    work: tuple[str, ...] = ()


class Scheduler(Protocol):
    """One that gives hosts work. All raise ApplianceError; a host it does not know has no work of it."""

    owner: Owner

    def look(self, host: str) -> Held | None:
        """The host as it is; None where the scheduler does not know it."""
        ...

    def take_out(self, host: str, why: Why) -> None:
        """No new work. What somebody else has taken out already stays theirs."""
        ...

    def clear(self, host: str, force: bool) -> list[Work]:
        """Does what may be done now to free the host; what stands in the way still.

        ``force``: consent to end what would run to its end.
        """
        ...

    def give_back(self, host: str) -> None:
        """Work again, where the drain is ours."""
        ...


def is_ours(reason: str) -> bool:
    """Whether a drain has one of our reasons."""
    return reason in set(Why)


NOT_AT_WORK = frozenset({"inactive", "unknown"})
"""systemd's words for a unit that was stopped or is not there; what one that failed had started may go on without it."""


def runs(session: Session, host: str, unit: str) -> bool:
    """Whether a service, or what it left, may run on a host; one that does not say is taken to run it."""
    try:
        done = session.remote.run(host, ["systemctl", "is-active", unit], timeout=30)
    except ApplianceError:
        return True
    return done.stdout.strip() not in NOT_AT_WORK
