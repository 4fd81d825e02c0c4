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
    return _gate(view, dcgm_run.CHECK, title, Level.GPU, targets, bound, GPUS)


def nccl(view: View) -> tuple[Requirement, ...]:
    """Where the cluster's bandwidth is asked for: of each host, too, if it is published for its GPUs, and of groups."""
    bound, hosts = view.limit(nccl_run.ALL), _of_slurm(view)
    if bound is None:
        return ()
    host = floors.floor(view, nccl_run.HOST)
    alone = "all_reduce over the GPUs of each host"
    found = _gate(view, nccl_run.HOST, alone, Level.HOST, per_host(hosts), host, GPUS)
    if len(hosts) > 1:
        whole, also = of_cluster(hosts, f"{len(hosts)} hosts"), (nccl_run.CURVE,)
        title = "all_reduce over all GPU hosts"
        found += _gate(view, nccl_run.ALL, title, Level.CLUSTER, whole, bound, FABRIC, also)
    return found


def perftest(view: View) -> tuple[Requirement, ...]:
    """Every rail of every host; which rails it has, its facts say."""
    hosts = _of_slurm(view)
    targets = tuple(
        Target(f"{host}/{rail.partition(':')[0]}", (host,))
        for host in hosts
        for rail in perftest_run.rails_of(view, host)
    )
    found: tuple[Requirement, ...] = ()
    for check, what in ((perftest_run.BW, "bandwidth"), (perftest_run.LAT, "latency")):
        title = f"RDMA write {what} of every rail"
        bound = view.limit(check)
        blocked = (
            "" if targets else "which active ports the hosts have is not known: appliance health"
        )
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
    targets = per_host(_of_slurm(view))
    return _gate(view, burnin.DONE, title, Level.BURN_IN, targets, bound, FABRIC, also)


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
    of_gpus: bool = True,
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
    )
    return (gate,)


def _hosts(view: View) -> list[str]:
    return [host.name for host in view.site.with_role(Role.GPU)]


def _of_slurm(view: View) -> list[str]:
    """Those that these benchmarks reach: their jobs are Slurm's."""
    return [host.name for host in view.site.gpu_hosts_of(Owner.SLURM)]
