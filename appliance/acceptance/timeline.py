"""What was observed while a promise was tried: moments, each of a named phase. Judged afterwards, and alone."""

from collections.abc import Iterable
from dataclasses import dataclass, field

ENDED = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True)
class Seen:
    """A pod at one moment. ``node`` is empty until a scheduler has placed it; ``exit_code`` of its container."""

    workload: str
    uid: str
    node: str
    phase: str
    ending: bool = False
    exit_code: int | None = None

    @property
    def placed(self) -> bool:
        """Whether it holds what it asked for; that its image is still being fetched changes nothing."""
        return bool(self.node) and self.phase not in ENDED and not self.ending


@dataclass(frozen=True)
class Moment:
    """All pods of the trial at one time; ``at`` in seconds since it began."""

    phase: str
    at: float
    pods: tuple[Seen, ...] = ()

    def of(self, workload: str) -> tuple[Seen, ...]:
        """The pods of one workload, ended ones too."""
        return tuple(pod for pod in self.pods if pod.workload == workload)

    def placed(self, *workloads: str) -> int:
        """How many pods of these workloads are placed."""
        wanted = frozenset(workloads)
        return sum(pod.placed for pod in self.pods if pod.workload in wanted)

    def nodes(self, *workloads: str) -> tuple[str, ...]:
        """Where they are, one name for each placed pod."""
        wanted = frozenset(workloads)
        return tuple(p.node for p in self.pods if p.placed and p.workload in wanted)

    def uids(self, workload: str) -> set[str]:
        """Its placed pods by their identity: a pod that was made anew is another one."""
        return {pod.uid for pod in self.pods if pod.placed and pod.workload == workload}


@dataclass
class Timeline:
    """Moments in their order, and what else was learnt by name."""

    moments: list[Moment] = field(default_factory=list)
    notes: dict[str, bool | None] = field(default_factory=dict)

    def during(self, phase: str) -> Iterable[Moment]:
        """The moments of a phase."""
        return (moment for moment in self.moments if moment.phase == phase)

    def last(self, phase: str) -> Moment:
        """How a phase ended; empty where it was never reached."""
        return next(iter(reversed(list(self.during(phase)))), Moment(phase, 0.0))

    def most(self, phase: str, workload: str) -> int:
        """The most pods placed at one moment of a phase."""
        return max((moment.placed(workload) for moment in self.during(phase)), default=0)

    def least(self, phase: str, workload: str) -> int:
        """The fewest pods placed at one moment of a phase."""
        return min((moment.placed(workload) for moment in self.during(phase)), default=0)

    def asked(self, phase: str, workload: str, pods: int = 1) -> bool:
        """Whether so many pods of it were there when a phase ended, placed or not: else nothing was tried."""
        return len(self.last(phase).of(workload)) >= pods

    def ever(self, phase: str) -> bool:
        """Whether any pod ever ran in any phase so called."""
        return any(pod.phase == phase for moment in self.moments for pod in moment.pods)
