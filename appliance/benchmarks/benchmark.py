"""What a benchmark is: a workload run on the cluster, judged by what it measured, and what acceptance asks of it.

A benchmark that acceptance asks for declares its gates: ``Benchmark.gates`` is a function of the View that gives one
``Requirement`` per gate. Everything else follows from that: results of a run enter the site's record as evidence, and
``appliance accept`` and every report say what is open, why, and which command closes it. Of a benchmark per host::

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

Targets are what ``CheckResult.target`` says: ``per_host`` "gpu-1", or with parts "gpu-1/GPU 3"; ``per_pair``
"gpu-1/to gpu-2"; ``of_cluster`` "cluster" or "cluster/4 hosts". A gate passes when each target has a result of ``check`` with
status pass, and nothing of ``check`` and ``also`` failed; a missing, skipped or simulated result leaves it open.

Rules the engine keeps, so that no benchmark need to: of each host (and of the cluster) the evidence recorded last counts;
it does not count where it is of another site, profile, GPU, number of GPUs a host or limit, where it was measured on
simulated hardware, or where after it a stage changed the host or its GPUs were exchanged. Cluster targets are stale, too,
when the site has other GPU hosts now. ``appliance validate --self-test`` tries all of these on every declared gate.
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
    """What a tool said, kept beside the report as ``evidence/BENCHMARK/NAME`` with its digest. ``name``: without a slash.

    ``part``: that of the gate it is about (``Requirement.part``), where one run measures several.
    """

    name: str
    text: str
    part: str = ""

    def __post_init__(self) -> None:
        if "/" in self.name or self.name in {"", ".", ".."}:
            raise ValueError(f"{self.name!r} is no name of a file")


@dataclass(frozen=True)
class Outcome:
    """Verdicts, numbers, tables and raw output of one benchmark."""

    results: tuple[CheckResult, ...] = ()
    measurements: tuple[Measurement, ...] = ()
    tables: tuple[Table, ...] = ()
    raw: tuple[Raw, ...] = ()


@dataclass(frozen=True)
class Target:
    """What a gate wants judged: the target as results name it, and the hosts whose change makes its evidence stale."""

    name: str
    hosts: tuple[str, ...]

    @property
    def of_cluster(self) -> bool:
        """Whether it speaks of the cluster rather than of a host or a pair."""
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
    """The models of GPUs that the hosts have now, as NVML names them; of hosts that did not say nothing."""
    return frozenset(gpu.name for f in view.facts.values() if f.gpus for gpu in f.gpus.devices)


@dataclass(frozen=True)
class Requirement:
    """A measurement that acceptance asks for: a gate. The module's text shows how one is declared.

    ``limit``: what evidence must have been judged against, None where pass is the tool's own word. ``part``: what of the
    benchmark's files and of results "cluster/PART ..." it is about, where one run measures several gates at once.
    ``gpus``: what the hosts have now, as evidence names it; empty where they did not say. ``of_gpus``: whether the figure
    rests on GPUs; if not, exchanged GPUs leave it standing. ``stages``: a change of one of them on a host of a target
    makes its evidence stale. ``blocked``: why no evidence can be judged; ``forever``: nor ever will be, whatever is repaired,
    so that a waiver is all that is left. ``by_run``: whether a run of the benchmark can close it; if not, ``close`` says what does. ``beyond``: hosts of the targets that no run of it reaches as the site is,
    for another scheduler has them: a target there stays open, and says whose it is. ``no_run``: the site has no scheduler that this release
    has a run for. ``unit``: of the results of ``check``, where it is not the limit's; a
    pass in another unit, or without a value where there is a limit, closes nothing. ``profile``: the class it is of, where the
    site has several; evidence of another closes nothing.
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
    no_run: bool = False
    unit: str | None = None
    profile: str = ""

    def reached(self, target: Target) -> bool:
        """Whether a run of the benchmark reaches all hosts of this target."""
        return self.beyond.isdisjoint(target.hosts)

    @property
    def expected_unit(self) -> str:
        """The unit that results of the check come in: the limit's own where the gate names no other."""
        return self.unit if self.unit is not None else self.limit.unit if self.limit else ""

    def concerns(self, result: CheckResult) -> bool:
        """Whether a failure of ``result`` fails this gate."""
        if self.part:
            return result.target.startswith(f"{CLUSTER}/{self.part} ")
        if result.id != self.check and result.id not in self.also:
            return False
        return any(target.of_cluster is (result.host is None) for target in self.targets)


def no_gates(_: View) -> tuple[Requirement, ...]:
    """Of a benchmark that acceptance does not ask for."""
    return ()


Workload = Callable[[View, Remote], Outcome]


@dataclass(frozen=True)
class Benchmark:
    """``checks``: ids of the verdicts it gives; ``minutes``: first estimate on a bare cluster.

    ``bounds``: what limits of site or profile may be, by the id of the verdict; of others they can set none.
    ``submits``: its run takes a ``book`` (benchmarks/batch.py), for its jobs go on without the program.
    ``timed``: the check whose limit says for how many hours it lasts, else ``minutes``, whatever it took before.
    ``told``: somebody has said how many minutes.
    ``holds``: its run works on hosts, which nobody else may change meanwhile.
    ``of_class``: it runs and is judged for each hardware class of the site by itself; else once over all hosts.
    ``through_queue``: on a site with queues its run is given a door to the pods of one (adapters/pods.py).
    ``deploys``: whether a deployment of the site runs it, and ``appliance validate`` without names; others run where they are named.
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
    timed: str = ""
    told: bool = False

    def views(self, view: View) -> tuple[View, ...]:
        """What it runs and is judged on: each class of the site by itself, or the whole site."""
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
