"""Burnin cluster, as several test modules use it."""

from collections.abc import Sequence

from appliance.adapters.process import Completed
from appliance.benchmarks.benchmark import Outcome
from appliance.benchmarks.burnin import run as burnin
from appliance.checks.check import View
from appliance.errors import ConnectionFailed
from tests.support.burnin_output import lines, written
from tests.support.profiles import profile_of
from tests.support.sites import site_of

HOSTS = ("gpu-1", "gpu-2")


def view() -> View:
    return View(profile_of(gpu={"count": 2}), site_of("head", *HOSTS), {})


class Cluster:
    """Slurm with one job at most, whose states are told one after the other; time passes by sleeping."""

    def __init__(self, *states: str | None, samples: str = "", refused: str = "") -> None:
        self.states, self.samples, self.refused = list(states), samples, refused
        self.judged, self.begins = False, True
        self.asked: list[str] = []
        self.submitted: tuple[str, ...] = ()
        self.now = 0.0

    def run(
        self, host: str, argv: Sequence[str], *, input: bytes | None = None, timeout: float = 60
    ) -> Completed:
        self.asked.append(argv[0])
        if argv[0] == "squeue":
            assert "--me" in argv, "any user may have a job of that name"
            state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
            if state is None:
                raise ConnectionFailed("no answer", "is it up?", host)
            return Completed(tuple(argv), 0, f"{state}\n" if state else "", "")
        if argv[0] == "sbatch":
            self.submitted = tuple(argv)
            self.judged = self.judged and not self.begins
            code = 1 if self.refused else 0
            return Completed(tuple(argv), code, "7\n", self.refused)
        if argv[0] == "touch":
            self.judged = True
        if self.judged and argv[0] == "sh":
            return Completed(tuple(argv), 0 if "||" in argv[2] else 1, "", "")
        return Completed(tuple(argv), 0, self.samples, "")

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def outcome(self, minutes: int = 480, site: View | None = None) -> Outcome:
        return burnin.run(site or view(), self, minutes, clock=lambda: self.now, sleep=self.sleep)


DONE = written(lines())
