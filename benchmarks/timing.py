"""Wall time, processor time and memory of programs, and what rounds of them amount to."""

import json
import resource
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from appliance.adapters.process import run

# A small process starts the program and waits for it: a program's peak of memory begins with that of who started it.
STOPWATCH = """
import json, os, sys, time
into, out, *argv = sys.argv[1:]
streams = [
    (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
    (os.POSIX_SPAWN_OPEN, 1, out, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600),
]
began = time.monotonic()
_, status, used = os.wait4(os.posix_spawnp(argv[0], argv, os.environ, file_actions=streams), 0)
wall = time.monotonic() - began
end = [wall, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024]
open(into, "w").write(json.dumps([os.waitstatus_to_exitcode(status), end]))
"""


@dataclass(frozen=True)
class Cost:
    """Seconds of wall time, and of processor time on this machine, children included.

    ``peak``: the most memory of any one of the processes, MiB; 0 where it was not measured.
    """

    wall: float
    cpu: float
    peak: float = 0.0


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
    def peak(self) -> float:
        """The most memory in any round, MiB."""
        return max(cost.peak for cost in self.costs)

    @property
    def spread(self) -> tuple[float, float]:
        """Shortest and longest wall time, seconds."""
        walls = [cost.wall for cost in self.costs]
        return min(walls), max(walls)


def timed(work: Callable[[], object]) -> Cost:
    """Cost of ``work``, which waits for the programs it starts; what it says itself of its cost stands."""
    before, began = _children(), time.monotonic()
    said = work()
    return said if isinstance(said, Cost) else Cost(time.monotonic() - began, _children() - before)


def alone(
    argv: Sequence[str],
    out: Path,
    *,
    ends: Sequence[int] = (0,),
    env: Mapping[str, str] | None = None,
    timeout: float = 1200,
) -> Cost:
    """Cost of one program without input, its output in ``out``. Raises SystemExit where it ends with another code."""
    with TemporaryDirectory() as folder:
        into = Path(folder) / "end"
        watch = (sys.executable, "-I", "-S", "-c", STOPWATCH, str(into), str(out), *argv)
        said = run(watch, env=env, timeout=timeout).stderr
        code, cost = json.loads(into.read_text())
    if code not in ends:
        raise SystemExit(f"{argv[0]} ended with {code}: {said[-1500:]}{_end_of(out)}")
    return Cost(*cost)


def _end_of(file: Path) -> str:
    return file.read_bytes()[-1500:].decode(errors="replace") if file.exists() else ""


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
