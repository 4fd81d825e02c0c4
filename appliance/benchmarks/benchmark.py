"""What a benchmark is: a workload run on the cluster, judged by what it measured."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from appliance.adapters.remote import Remote
from appliance.checks.check import View
from appliance.models.bound import Bound
from appliance.models.profile import Limit
from appliance.models.result import CheckResult, Measurement
from appliance.models.run import Table


@dataclass(frozen=True)
class Outcome:
    """Verdicts, numbers and tables of one benchmark."""

    results: tuple[CheckResult, ...] = ()
    measurements: tuple[Measurement, ...] = ()
    tables: tuple[Table, ...] = ()


@dataclass(frozen=True)
class Requirement:
    """A measurement that acceptance asks for and a deployment cannot make: a gate.

    ``targets``: the results that must be good, by their target; ``part``: what of the benchmark's logs it is about.
    ``gpus``: what the hosts have now, as evidence names it; empty where they did not say.
    ``stages``: a change of one of them on a GPU host makes evidence stale; ``blocked``: why no evidence can be judged.
    """

    id: str
    title: str
    benchmark: str
    part: str
    check: str
    targets: tuple[str, ...]
    close: str
    limit: Limit
    stages: tuple[str, ...]
    gpus: frozenset[str] = frozenset()
    blocked: str = ""


def no_gates(_: View) -> tuple[Requirement, ...]:
    """Of a benchmark that a deployment runs itself."""
    return ()


Workload = Callable[[View, Remote], Outcome]


@dataclass(frozen=True)
class Benchmark:
    """``checks``: ids of the verdicts it gives; ``minutes``: first estimate on a bare cluster.

    ``bounds``: what limits of site or profile may be, by the id of the verdict; of others they can set none.
    """

    name: str
    title: str
    checks: tuple[str, ...]
    run: Workload
    minutes: float
    explain: str
    bounds: Mapping[str, Bound] = field(default_factory=dict)
    gates: Callable[[View], tuple[Requirement, ...]] = field(default=no_gates)
