"""What acceptance asks of the measuring benchmarks: a gate for each limit that site or profile set for one of them."""

from collections.abc import Sequence

from appliance.benchmarks import floors
from appliance.benchmarks.benchmark import (
    Requirement,
    Target,
    gpu_models,
    of_cluster,
    per_host,
)
from appliance.benchmarks.burnin import judge as burnin
from appliance.benchmarks.dcgm import run as dcgm_run
from appliance.benchmarks.fio import run as fio_run
from appliance.benchmarks.hpcc import run as hpcc_run
from appliance.benchmarks.nccl import run as nccl_run
from appliance.benchmarks.perftest import run as perftest_run
from appliance.checks.check import View
from appliance.models.acceptance import Level
from appliance.models.gpus import gpu_count
from appliance.models.profile import Limit
from appliance.models.site import Owner, Role
from appliance.report.wording import fold

GPUS, FABRIC = ("gpu", "mig"), ("gpu", "mig", "fabric")


def dcgm(view: View) -> tuple[Requirement, ...]:
    """The diagnostics of every GPU at the level that is asked for."""
    bound = view.limit(dcgm_run.CHECK)
    targets = tuple(
        target
        for host in _hosts(view)
        for index in range(gpu_count(view.profile, view.site.host(host)))
        for target in per_host((host,), f"GPU {index}")
    )
    title = f"DCGM's diagnostics of every GPU, level {bound.value}" if bound else ""
    # A pass counts the tests; the level is judged by the benchmark.
    return _gate(view, dcgm_run.CHECK, title, Level.GPU, targets, bound, GPUS, unit="tests")


def nccl(view: View) -> tuple[Requirement, ...]:
    """Where the cluster's bandwidth is asked for: of each host, too, if it is published for its GPUs, and of groups."""
    bound = view.limit(nccl_run.ALL)
    hosts, beyond = _hosts(view), _beyond(view)
    if bound is None:
        return ()
    host = floors.floor(view, nccl_run.HOST)
    alone = "all_reduce over the GPUs of each host"
    targets = per_host(hosts)
    found = _gate(view, nccl_run.HOST, alone, Level.HOST, targets, host, GPUS, beyond=beyond)
    if len(hosts) > 1:
        whole, also = of_cluster(hosts, f"{len(hosts)} hosts"), (nccl_run.CURVE,)
        title = "all_reduce over all GPU hosts"
        found += _gate(
            view, nccl_run.ALL, title, Level.CLUSTER, whole, bound, FABRIC, also, beyond=beyond
        )
    return found


def perftest(view: View) -> tuple[Requirement, ...]:
    """Every rail of every host; which rails it has, its facts say. A single host has no pair to be measured in."""
    hosts, blocked = _hosts(view), ""
    if len(hosts) < 2:
        return ()
    rails = {host: list(perftest_run.rails_of(view, host)) for host in hosts}
    targets = tuple(
        Target(f"{host}/{rail.partition(':')[0]}", (host,))
        for host, own in rails.items()
        for rail in own
    )
    expected = view.profile.hardware.fabric.ports
    # A rail that is down has no evidence, and would be missed by nobody.
    if short := [host for host, own in rails.items() if len(own) < max(1, expected)]:
        blocked = f"fewer active ports are known of {fold(short)} than the class has ({expected}): appliance health"
    found: tuple[Requirement, ...] = ()
    for check, what in ((perftest_run.BW, "bandwidth"), (perftest_run.LAT, "latency")):
        title = f"RDMA write {what} of every rail"
        bound = view.limit(check)
        chosen = targets or per_host(hosts)
        found += _gate(
            view,
            check,
            title,
            Level.FABRIC,
            chosen,
            bound,
            ("fabric",),
            blocked=blocked,
            beyond=_beyond(view),
            of_gpus=False,
        )
    return found


def fio(view: View) -> tuple[Requirement, ...]:
    """Each figure of scratch and of every shared directory."""
    storage, hosts = view.site.storage, _hosts(view)
    mounts = [mount.at.removeprefix("/") for mount in storage.mounts]
    places = {
        "scratch": [storage.scratch.at.removeprefix("/")] if storage.scratch else [],
        "shared": mounts,
    }
    found: tuple[Requirement, ...] = ()
    for check in fio_run.CHECKS:
        kind = check.partition(".")[2].partition("_")[0]
        parts = places.get(kind, [f"{mount} {len(hosts)} hosts" for mount in mounts])
        targets = per_host(hosts, *parts) if kind in places else of_cluster(hosts, *parts)
        if parts:
            title = f"fio: {check.partition('.')[2].replace('_', ' ')}"
            bound = view.limit(check)
            found += _gate(
                view, check, title, Level.STORAGE, targets, bound, ("storage",), of_gpus=False
            )
    return found


def hpcc(view: View) -> tuple[Requirement, ...]:
    """STREAM and HPL of each host."""
    found: tuple[Requirement, ...] = ()
    for check in hpcc_run.CHECKS:
        title, targets = f"{check.partition('.')[2].upper()} on processors", per_host(_hosts(view))
        bound = view.limit(check)
        found += _gate(view, check, title, Level.HOST, targets, bound, ("base",), of_gpus=False)
    return found


def burn_in(view: View) -> tuple[Requirement, ...]:
    """The hours that are asked for, on every host, and nothing that failed during them."""
    bound, also = view.limit(burnin.DONE), (burnin.CLOCKS, burnin.HEAT, burnin.ERRORS)
    title = f"Burn-in of {bound.value} h" if bound else ""
    targets, level, beyond = per_host(_hosts(view)), Level.BURN_IN, _beyond(view)
    return _gate(view, burnin.DONE, title, level, targets, bound, FABRIC, also, beyond=beyond)


def _gate(
    view: View,
    check: str,
    title: str,
    level: Level,
    targets: Sequence[Target],
    bound: Limit | None,
    stages: tuple[str, ...],
    also: tuple[str, ...] = (),
    *,
    blocked: str = "",
    beyond: frozenset[str] = frozenset(),
    of_gpus: bool = True,
    unit: str | None = None,
) -> tuple[Requirement, ...]:
    """None without a limit, or without a host that it could be of."""
    if bound is None or not targets:
        return ()
    name = check.partition(".")[0]
    gate = Requirement(
        id=check,
        title=title,
        level=level,
        benchmark=name,
        check=check,
        targets=tuple(targets),
        close=f"appliance validate {name}",
        limit=bound,
        stages=stages,
        also=also,
        of_gpus=of_gpus,
        gpus=gpu_models(view) if of_gpus else frozenset(),
        blocked=blocked,
        beyond=beyond,
        unit=unit,
    )
    return (gate,)


def _hosts(view: View) -> list[str]:
    return [host.name for host in view.site.with_role(Role.GPU)]


def _beyond(view: View) -> frozenset[str]:
    """GPU hosts that no job of Slurm reaches. They stay targets of what its jobs measure: not measured is not good."""
    of_slurm = {host.name for host in view.site.gpu_hosts_of(Owner.SLURM)}
    return frozenset(_hosts(view)) - of_slurm
