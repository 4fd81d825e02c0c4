"""Checks MIG on demand: hosts run their rounds, and instances that pods wait for can be created."""

from collections.abc import Iterator

from appliance.checks.causes import Cause, Reach, is_unknown
from appliance.checks.check import (
    Check,
    ClusterCheck,
    Nature,
    View,
    failed,
    not_assessed,
    passed,
    warned,
)
from appliance.models.facts import HostFacts
from appliance.models.result import Judgement
from appliance.models.site import Host, Role
from appliance.stages.base.causes import unit_failed
from appliance.stages.gpu import ids as gpu_ids
from appliance.stages.gpu.checks.each import is_simulated
from appliance.stages.kubernetes import ids as kubernetes_ids
from appliance.stages.limits import ids as limits_ids
from appliance.stages.limits.checks import OLD_S as ROUND_OLD_S
from appliance.stages.mig import ids
from appliance.stages.mig.layouts import demands, on_demand

UNIT = "appliance-mig-demand.service"
UNITS = (UNIT,)
"""What the probe must read."""

OLD_S = 600.0
"""Own choice: a round is due every 15 s; one that waits for starting pods and a device plugin may take five minutes."""


def _judge(view: View) -> Iterator[Judgement]:
    if not demands(view.site):
        return
    for host in view.site.with_role(Role.GPU):
        if on_demand(view.profile_of(host.name), view.site, host):
            yield _host(host, view.facts.get(host.name))
    yield _cluster(view)


def _host(host: Host, facts: HostFacts | None) -> Judgement:
    if facts is None:
        return not_assessed(host.name, f"{host.name} did not answer")
    unit, seen = facts.units.get(UNIT), facts.mig_demand
    fix = f"on {host.name}: journalctl -u appliance-mig-demand; then appliance deploy --stage mig"
    simulated = is_simulated(facts)
    if unit is None or unit.active == "unknown":
        why = facts.gap("units", f"the state of {UNIT} was not read")
        return not_assessed(host.name, why)
    if unit.active != "active" or unit.enabled != "enabled":
        cause = f"{UNIT} is {unit.active}, {unit.enabled or unit.load}"
        return failed(host.name, cause, fix, value=unit.active, limit="active")
    if seen is None:
        why = facts.gap("mig_demand", "the host has no settings of what it may divide")
        return not_assessed(host.name, why, fix=fix)
    if seen.age_s > OLD_S:
        cause = f"its last round ended {seen.age_s:.0f} s ago"
        return failed(host.name, cause, fix, value=seen.age_s, unit="s", limit=OLD_S)
    if seen.problem:
        return failed(host.name, seen.problem, fix, limit="no trouble", simulated=simulated)
    if seen.waits:
        return not_assessed(host.name, seen.waits)
    told = f"{seen.made} created and {seen.taken} removed since its start"
    return passed(
        host.name, sum(seen.free.values()), unit="free", evidence=told, simulated=simulated
    )


def _cluster(view: View) -> Judgement:
    """Return the active control host's facts about pending pods."""
    rounds = [
        facts.limits
        for host in view.site.with_role(Role.CONTROL)
        if (facts := view.facts.get(host.name)) and facts.limits and facts.limits.leader
    ]
    seen = next((one for one in rounds if one.age_s <= ROUND_OLD_S), None)
    fix = "journalctl -u appliance-limits on the control host that acts; kubectl describe the pods"
    if seen is None or seen.demand is None:
        why = (
            "no control host watches for pending pods"
            if seen is None
            else "the host has no policy yet"
        )
        return not_assessed("cluster", why, fix="appliance queue apply")
    if seen.demand.troubles:
        return failed("cluster", seen.demand.troubles[0], fix, limit="no trouble")
    waiting = seen.demand.waiting
    if seen.demand.unmet:
        unmet = seen.demand.unmet
        return warned("cluster", unmet[0], fix, value=len(unmet), unit="pods", limit=0)
    return passed("cluster", waiting, unit="pods waiting")


CHECKS: tuple[Check, ...] = (
    ClusterCheck(
        ids.ON_DEMAND,
        "MIG instances are created for pods that request them",
        _judge,
        "If a node pool has mig_on_demand, each of its hosts runs appliance-mig-demand, and the control host that holds the Lease of "
        "appliance-limits sends it the needs of pending pods. It fails if a host does not run it or could not fulfil a request. It warns of "
        "pods whose instance cannot be created, with the reason. Usual causes: no room, a driver error, an unreadable record of kubelet's "
        "devices, or a device plugin that was not restarted.",
        nature=Nature.SYMPTOM,
        causes=(
            Cause(
                kubernetes_ids.ETCD,
                "etcd refuses changes, so no node reports its devices",
                Reach.SITE,
            ),
            Cause(kubernetes_ids.API, "the program that divides GPUs uses this API", Reach.SITE),
            Cause(
                limits_ids.RUNNING,
                "the stopped program sees no pending pod",
                Reach.SITE,
                is_unknown,
            ),
            Cause(gpu_ids.DRIVER, "without its driver no GPU is divided"),
        ),
        explains=(unit_failed("appliance-mig-demand"),),
    ),
)
