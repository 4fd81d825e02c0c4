"""Builds gates from a limit that site or profile set, and their hosts; shared by the measuring benchmarks."""

from collections.abc import Sequence

from appliance.benchmarks.benchmark import Requirement, Target, gpu_models
from appliance.checks.check import View
from appliance.models.acceptance import Level
from appliance.models.profile import Limit
from appliance.models.site import Owner, Role

GPUS, FABRIC = ("gpu", "mig"), ("gpu", "mig", "fabric")
"""Stages whose change makes figures of GPUs, or of GPUs and what joins them, stale."""


def gate(
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
    spans: bool = False,
    of_gpus: bool = True,
    unit: str | None = None,
) -> tuple[Requirement, ...]:
    """None without a limit, or without a host that it could be of. ``spans``: each run is work of one scheduler."""
    if bound is None or not targets:
        return ()
    name = check.partition(".")[0]
    made = Requirement(
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
        beyond=_without_slurm(view) if spans else frozenset(),
        unit=unit,
    )
    return (made,)


def gpu_hosts(view: View) -> list[str]:
    """Names of the site's GPU hosts, in its order."""
    return [host.name for host in view.site.with_role(Role.GPU)]


def _without_slurm(view: View) -> frozenset[str]:
    """GPU hosts that no job of Slurm reaches; none if Slurm has no GPU host, because then pods reach them all.

    They stay targets of what its jobs measure: not measured is not good.
    """
    of_slurm = {host.name for host in view.site.gpu_hosts_of(Owner.SLURM)}
    return frozenset(gpu_hosts(view)) - of_slurm if of_slurm else frozenset()
