"""Observations of a trial: moments, each in a named phase. They are judged afterwards."""

from collections.abc import Iterable
from dataclasses import dataclass, field

ENDED = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True)
class Observation:
    """A pod at one moment. ``node`` is empty until a scheduler has placed it; ``exit_code`` of its container."""

    workload: str
    uid: str
    node: str
    phase: str
    ending: bool = False
    exit_code: int | None = None

    @property
    def placed(self) -> bool:
        """Whether it holds its resources; an image that is still being pulled does not matter."""
        return bool(self.node) and self.phase not in ENDED and not self.ending


@dataclass(frozen=True)
class Moment:
    """All pods of the trial at one time; ``at`` in seconds since it began."""

    phase: str
    at: float
    pods: tuple[Observation, ...] = ()

    def of(self, workload: str) -> tuple[Observation, ...]:
        """Return the pods of one workload, including ended ones."""
        return tuple(pod for pod in self.pods if pod.workload == workload)

    def placed(self, *workloads: str) -> int:
        """Return how many pods of these workloads are placed."""
        wanted = frozenset(workloads)
        return sum(pod.placed for pod in self.pods if pod.workload in wanted)

    def nodes(self, *workloads: str) -> tuple[str, ...]:
        """Return their nodes, one name for each placed pod."""
        wanted = frozenset(workloads)
        return tuple(p.node for p in self.pods if p.placed and p.workload in wanted)

    def uids(self, workload: str) -> set[str]:
        """Return its placed pods by UID: a recreated pod is another one."""
        return {pod.uid for pod in self.pods if pod.placed and pod.workload == workload}


@dataclass
class Timeline:
    """Moments in order, and other findings by name."""

    moments: list[Moment] = field(default_factory=list)
    notes: dict[str, bool | None] = field(default_factory=dict)

    def during(self, phase: str) -> Iterable[Moment]:
        """Return the moments of a phase."""
        return (moment for moment in self.moments if moment.phase == phase)

    def last(self, phase: str) -> Moment:
        """Return the last moment of a phase; empty if it was never reached."""
        return next(iter(reversed(list(self.during(phase)))), Moment(phase, 0.0))

    def most(self, phase: str, workload: str) -> int:
        """Return the largest number of pods placed at one moment of a phase."""
        return max((moment.placed(workload) for moment in self.during(phase)), default=0)

    def least(self, phase: str, workload: str) -> int:
        """Return the smallest number of pods placed at one moment of a phase."""
        return min((moment.placed(workload) for moment in self.during(phase)), default=0)

    def asked(self, phase: str, workload: str, pods: int = 1) -> bool:
        """Return whether this number of its pods existed when a phase ended, placed or not: otherwise nothing was tested."""
        return len(self.last(phase).of(workload)) >= pods

    def ever(self, phase: str) -> bool:
        """Return whether any pod ever ran in a phase of this name."""
        return any(pod.phase == phase for moment in self.moments for pod in moment.pods)
