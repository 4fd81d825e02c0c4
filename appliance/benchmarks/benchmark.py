"""What a benchmark is: a workload run on the cluster, judged by what it measured."""

from collections.abc import Callable
from dataclasses import dataclass

from appliance.adapters.ssh import Remote
from appliance.checks.check import View
from appliance.models.result import CheckResult, Measurement
from appliance.models.run import Table


@dataclass(frozen=True)
class Outcome:
    """Verdicts, numbers and tables of one benchmark."""

    results: tuple[CheckResult, ...] = ()
    measurements: tuple[Measurement, ...] = ()
    tables: tuple[Table, ...] = ()


Workload = Callable[[View, Remote], Outcome]


@dataclass(frozen=True)
class Benchmark:
    """``checks``: ids of the verdicts it gives; ``minutes``: first estimate on a bare cluster."""

    name: str
    title: str
    checks: tuple[str, ...]
    run: Workload
    minutes: float
    explain: str
