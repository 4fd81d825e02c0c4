"""A benchmark is a workload that runs on the cluster and is judged by its measurements. It may declare gates of acceptance.

A benchmark that acceptance requires declares its gates: ``Benchmark.gates`` is a function of the View that returns one
``Requirement`` per gate. The rest is derived from that. Results of a run enter the site's record as evidence, and
``appliance accept`` and every report show each open gate, the reason, and the command that closes it. For a benchmark per host::

    def gates(view: View) -> tuple[Requirement, ...]:
        bound = view.limit("copy.rate")                # site, else profile; None: this class asks for none
        if bound is None:
            return ()
        hosts = [host.name for host in view.site.with_role(Role.GPU)]
        return (
            Requirement(
                id="copy.rate",
                title="Copies of every host",
                level=Level.HOST,
                benchmark="copy",                      # Benchmark.name
                check="copy.rate",                     # id of the CheckResult that must pass ...
                targets=per_host(hosts),               # ... on each of these targets
                also=("copy.errors",),                 # other ids: a failure of one fails the gate, too
                close="appliance validate copy",
                limit=bound,
                stages=("gpu", "mig"),                 # a change of one on a host makes that host's evidence stale
                gpus=gpu_models(view),                 # evidence of other GPUs does not count
            ),
        )

Targets are values of ``CheckResult.target``: ``per_host`` "gpu-1", or with parts "gpu-1/GPU 3"; ``per_pair``
"gpu-1/to gpu-2"; ``of_cluster`` "cluster" or "cluster/4 hosts". A gate passes when each target has a result of ``check`` with
status pass, and nothing of ``check`` and ``also`` failed; a missing, skipped or simulated result leaves it open.

The engine applies the following rules, so that no benchmark has to. For each host (and for the cluster) the latest evidence counts.
It does not count if it is of another site, profile, GPU, number of GPUs per host or limit, or if it was measured on
simulated hardware. It is stale if a stage changed the host later, or if its GPUs were exchanged. Evidence of the cluster is also stale
if the site has other GPU hosts now. ``appliance validate --self-test`` tries all of these on every declared gate.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from appliance.adapters.remote import Remote
from appliance.checks.check import View
from appliance.models.acceptance import Level
from appliance.models.bound import Bound
from appliance.models.profile import Limit
from appliance.models.result import CLUSTER, CheckResult, Measurement, place
from appliance.models.run import Table
from appliance.models.site import Site


def by_name_alone(site: Site) -> bool:
    """No deployment runs it."""
    return False


@dataclass(frozen=True)
class Raw:
    """Output of a tool, kept next to the report as ``evidence/BENCHMARK/NAME`` with its digest. ``name``: without a slash.

    ``part``: that of its gate (``Requirement.part``), if one run measures several.
    """

    name: str
    text: str
    part: str = ""

    def __post_init__(self) -> None:
        if "/" in self.name or self.name in {"", ".", ".."}:
            raise ValueError(f"{self.name!r} is not a valid file name")


@dataclass(frozen=True)
class Outcome:
    """Verdicts, numbers, tables and raw output of one benchmark."""

    results: tuple[CheckResult, ...] = ()
    measurements: tuple[Measurement, ...] = ()
    tables: tuple[Table, ...] = ()
    raw: tuple[Raw, ...] = ()


@dataclass(frozen=True)
class Target:
    """The subject of a gate: the target as in results, and the hosts whose change makes its evidence stale."""

    name: str
    hosts: tuple[str, ...]

    @property
    def of_cluster(self) -> bool:
        """Whether the target is the cluster, not a host or a pair."""
        return self.name.partition("/")[0] == CLUSTER


def per_host(hosts: Iterable[str], *parts: str) -> tuple[Target, ...]:
    """One target per host, or per part of each: "gpu-1", "gpu-1/GPU 3"."""
    if not parts:
        return tuple(Target(host, (host,)) for host in hosts)
    return tuple(Target(str(place(host, part)), (host,)) for host in hosts for part in parts)


def per_pair(pairs: Iterable[tuple[str, str]]) -> tuple[Target, ...]:
    """One target per pair: "gpu-1/to gpu-2"."""
    return tuple(Target(str(place(one, f"to {other}")), (one, other)) for one, other in pairs)


def of_cluster(hosts: Sequence[str], *parts: str) -> tuple[Target, ...]:
    """The cluster, or parts of it ("cluster/4 hosts"), measured on these hosts."""
    names = [str(place(CLUSTER, part)) for part in parts] or [CLUSTER]
    return tuple(Target(name, tuple(hosts)) for name in names)


def gpu_models(view: View) -> frozenset[str]:
    """Returns the GPU models that the hosts report now, by their NVML names; hosts without a report are omitted."""
    return frozenset(gpu.name for f in view.facts.values() if f.gpus for gpu in f.gpus.devices)


@dataclass(frozen=True)
class Requirement:
    """A measurement that acceptance requires: a gate. The docstring of this module shows a declaration.

    ``limit``: the limit with which evidence must have been judged, None if pass is the tool's own verdict. ``part``: the part
    of the benchmark's files and of results "cluster/PART ...", if one run measures several gates. ``gpus``: the present GPUs
    of the hosts, as in evidence; empty if unknown. ``of_gpus``: whether the value depends on GPUs; otherwise it stays valid
    after GPUs are exchanged. ``stages``: a change by one of them on a host of a target makes its evidence stale.
    ``blocked``: the reason why no evidence can be judged; ``forever``: no repair changes that, so only a waiver remains.
    ``by_run``: whether a run of the benchmark can close the gate; otherwise ``close`` names the way. ``beyond``: hosts of the targets that no run can reach,
    because another scheduler owns them; such a target stays open and names the owner. ``unit``: unit of the results of ``check``, if it is not the limit's. A
    pass in another unit, or without a value if there is a limit, closes nothing. ``profile``: its hardware class, if the
    site has several; evidence of another class closes nothing.
    """

    id: str
    title: str
    level: Level
    benchmark: str
    check: str
    targets: tuple[Target, ...]
    close: str
    limit: Limit | None
    stages: tuple[str, ...]
    also: tuple[str, ...] = ()
    part: str = ""
    of_gpus: bool = True
    by_run: bool = True
    gpus: frozenset[str] = frozenset()
    blocked: str = ""
    forever: bool = False
    beyond: frozenset[str] = frozenset()
    unit: str | None = None
    profile: str = ""

    def reached(self, target: Target) -> bool:
        """Whether a run of the benchmark reaches all hosts of this target."""
        return self.beyond.isdisjoint(target.hosts)

    @property
    def expected_unit(self) -> str:
        """The unit of the check's results: that of the limit, unless the gate names another."""
        return self.unit if self.unit is not None else self.limit.unit if self.limit else ""

    def concerns(self, result: CheckResult) -> bool:
        """Whether a failure of ``result`` fails this gate."""
        if self.part:
            return result.target.startswith(f"{CLUSTER}/{self.part} ")
        if result.id != self.check and result.id not in self.also:
            return False
        return any(target.of_cluster is (result.host is None) for target in self.targets)


def no_gates(_: View) -> tuple[Requirement, ...]:
    """For a benchmark that acceptance does not require."""
    return ()


Workload = Callable[[View, Remote], Outcome]


@dataclass(frozen=True)
class Benchmark:
    """``checks``: ids of its verdicts; ``minutes``: first estimate on a bare cluster.

    ``bounds``: accepted ranges of limits of site or profile, by the id of the verdict; other ids cannot have limits.
    ``submits``: its run takes a ``book`` (benchmarks/batch.py), because its jobs continue without the program.
    ``timed``: the check whose limit gives its duration in hours; otherwise ``minutes``, whatever it took before.
    ``told``: the duration was given by the user.
    ``holds``: its run uses hosts, which no one else may change in the meantime.
    ``of_class``: it runs and is judged separately for each hardware class of the site; otherwise once over all hosts.
    ``through_queue``: on a site with queues its run gets access to the pods of one (adapters/pods.py).
    ``between``: its programs on several hosts meet: jobs of Slurm, or pods if Slurm owns no GPU host of the site.
    ``deploys``: whether a deployment and ``appliance validate`` without names run it; others run only by name.
    """

    name: str
    title: str
    checks: tuple[str, ...]
    run: Workload
    minutes: float
    explain: str
    bounds: Mapping[str, Bound] = field(default_factory=dict)
    gates: Callable[[View], tuple[Requirement, ...]] = field(default=no_gates)
    of_class: bool = True
    deploys: Callable[[Site], bool] = by_name_alone
    holds: bool = True
    submits: bool = False
    through_queue: bool = False
    between: bool = False
    timed: str = ""
    told: bool = False

    def views(self, view: View) -> tuple[View, ...]:
        """The scopes in which it runs and is judged: each class of the site separately, or the whole site."""
        return view.by_class() if self.of_class else (view,)

    def requirements(self, view: View) -> tuple[Requirement, ...]:
        """Its gates, on a site of several classes those of each class."""
        views = self.views(view)
        if len(views) == 1:
            return self.gates(views[0])
        return tuple(
            replace(wanted, profile=one.profile.name, title=f"{wanted.title}, {one.profile.name}")
            for one in views
            for wanted in self.gates(one)
        )
