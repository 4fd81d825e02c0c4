"""Wall time and processor time of programs, and what rounds of them amount to."""

import resource
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True)
class Cost:
    """Seconds of wall time, and of processor time on this machine, children included."""

    wall: float
    cpu: float


@dataclass(frozen=True)
class Row:
    """One thing that was measured, round by round."""

    name: str
    costs: tuple[Cost, ...]

    @property
    def wall(self) -> float:
        """Median wall time, seconds."""
        return median(cost.wall for cost in self.costs)

    @property
    def cpu(self) -> float:
        """Median processor time, seconds."""
        return median(cost.cpu for cost in self.costs)

    @property
    def spread(self) -> tuple[float, float]:
        """Shortest and longest wall time, seconds."""
        walls = [cost.wall for cost in self.costs]
        return min(walls), max(walls)


def timed(work: Callable[[], object]) -> Cost:
    """Cost of ``work``, which waits for the programs it starts."""
    before, began = _children(), time.monotonic()
    work()
    return Cost(time.monotonic() - began, _children() - before)


def interleaved(rounds: int, works: Sequence[tuple[str, Callable[[], object]]]) -> tuple[Row, ...]:
    """All of them in turn, so many times over: what else the machine does then hits each alike."""
    costs: dict[str, list[Cost]] = {name: [] for name, _ in works}
    for number in range(rounds):
        # Every other round goes backwards, so that nobody always comes after the same one.
        for name, work in works if number % 2 == 0 else reversed(works):
            costs[name].append(timed(work))
    return tuple(Row(name, tuple(costs[name])) for name, _ in works)


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
