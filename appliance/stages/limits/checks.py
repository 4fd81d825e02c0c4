"""Checks time limits on Kubernetes: the program runs, reaches the cluster, and has GPU metrics."""

from collections.abc import Iterator

from appliance.checks.causes import Cause, Reach
from appliance.checks.check import (
    CONTROL_HOSTS,
    Check,
    ClusterCheck,
    HostCheck,
    View,
    failed,
    not_assessed,
    passed,
    warned,
)
from appliance.models.facts import HostFacts
from appliance.models.gap import Gap
from appliance.models.result import Judgement, Kind
from appliance.models.site import Host, Role
from appliance.stages.base.causes import unit_failed
from appliance.stages.kubernetes import ids as kubernetes_ids
from appliance.stages.kubernetes.causes import FULL
from appliance.stages.limits import ids
from appliance.stages.limits.facts import Limits
from appliance.stages.observe import ids as observe_ids
from appliance.text import plural

NOT_RUNNING = Cause(ids.RUNNING, "the stopped program checks nothing", Reach.SITE)


UNIT = "appliance-limits.service"
UNITS = (UNIT, "appliance-limits-token.timer")
"""What the probe must read."""
OLD_S = 300.0
"""Own choice: a round is due every 30 s; one that waits for a stopped server may take minutes."""
LOG = "journalctl -u appliance-limits -u appliance-limits-token"


def _running(view: View, host: Host, facts: HostFacts) -> Iterator[Judgement]:
    del view
    unit = facts.units.get(UNIT)
    fix = f"on {host.name}: {LOG}; then appliance deploy --stage limits"
    if unit is None or unit.active == "unknown":
        why = facts.gap("units", f"the state of {UNIT} was not read")
        yield not_assessed(host.name, why)
    elif unit.active != "active" or unit.enabled != "enabled":
        cause = f"{UNIT} is {unit.active}, {unit.enabled or unit.load}"
        yield failed(host.name, cause, fix, value=unit.active, limit="active")
    elif facts.limits is None:
        why = facts.gap("limits", "the program is not installed")
        yield not_assessed(host.name, why, fix=fix)
    elif facts.limits.age_s > OLD_S:
        cause = f"its last round ended {facts.limits.age_s:.0f} s ago"
        yield failed(host.name, cause, fix, value=facts.limits.age_s, unit="s", limit=OLD_S)
    else:
        yield passed(host.name, unit.active, limit="active")


def _cluster(view: View) -> Iterator[Judgement]:
    known = _rounds(view)
    acting = [host for host, seen in known.items() if seen.leader and not seen.problem]
    troubles = [(host, seen.problem) for host, seen in known.items() if seen.problem]
    waiting = [seen.waits for seen in known.values() if seen.waits]
    if not known:
        yield not_assessed("cluster", _why_none(view))
    elif len(acting) > 1:
        cause = f"{' and '.join(acting)} act at the same time"
        fix = f"check their clocks, and {LOG} there"
        yield failed("cluster", cause, fix, value=len(acting), limit=1)
    elif acting and known[acting[0]].stuck:
        stuck = known[acting[0]].stuck
        cause = f"{plural(stuck, 'workload is', 'workloads are')} still there after the end of the time limit"
        fix = f"on {acting[0]}: {LOG} lists them; then kubectl describe each"
        yield failed("cluster", cause, fix, value=stuck, limit=0)
    elif acting and (left := _left_alone(known[acting[0]])):
        cause = f"{plural(left, 'workload is', 'workloads are')} left alone, because something about {'it' if left == 1 else 'them'} is unknown"
        fix = f"on {acting[0]}: {LOG} lists each with the reason"
        yield warned("cluster", cause, fix, value=left, limit=0)
    elif acting and troubles:
        host, problem = troubles[0]
        cause = f"{host}: {problem}: it could not follow {acting[0]}, which acts"
        fix = f"on {host}: {LOG}"
        yield warned("cluster", cause, fix, limit="no trouble")
    elif acting:
        seen = known[acting[0]]
        told = f"{acting[0]} acts, {plural(seen.limited, 'workload has', 'workloads have')} a limit"
        yield passed("cluster", seen.pods, unit="pods", evidence=told)
    elif troubles:
        fix = f"{LOG} there; rights and limits are created by appliance queue apply"
        yield failed("cluster", ": ".join(troubles[0]), fix, limit="no trouble")
    elif waiting:
        why = Gap(waiting[0], kind=Kind.WAITS)
        yield not_assessed("cluster", why, fix="appliance queue apply")
    else:
        holders = sorted({seen.holder or "nobody" for seen in known.values()})
        cause = f"no control host that answers is active; {', '.join(holders)} holds the lease"
        yield not_assessed("cluster", cause)


def _metrics(view: View) -> Iterator[Judgement]:
    wanted = any(
        queue.idle_limit
        for project in (view.site.scheduler.projects if view.site.scheduler else ())
        for queue in project.queues
    )
    acting = {host: seen for host, seen in _rounds(view).items() if seen.leader}
    if not wanted:
        return
    if not acting:
        none = Gap("no control host checks the cluster")
        yield not_assessed("cluster", none if _rounds(view) else _why_none(view))
        return
    host, seen = next(iter(acting.items()))
    unknown = seen.unknown.get("idle", 0)
    fix = (
        "dcgm-exporter must report pods (stage gpu connects it to kubelet) and be scraped; "
        f"{LOG} on {host} lists the workloads"
    )
    if not seen.metrics:
        why = seen.problem or "Prometheus was not queried: appliance queue apply creates the limits"
        yield not_assessed("cluster", why)
    elif seen.metrics != "ok":
        yield failed("cluster", seen.metrics, fix, limit="ok")
    elif unknown:
        cause = f"{plural(unknown, 'workload')} with an idle limit left alone: no complete metrics"
        yield failed("cluster", cause, fix, value=unknown, limit=0)
    elif seen.problem:
        yield not_assessed("cluster", f"its last round was interrupted: {seen.problem}")
    else:
        yield passed("cluster", "ok", limit="ok", evidence=f"read by {host}")


def _left_alone(seen: Limits) -> int:
    """Work whose time is unknown; missing metrics are reported by limits.metrics."""
    return sum(count for limit, count in seen.unknown.items() if limit != "idle")


def _rounds(view: View) -> dict[str, Limits]:
    """Facts of control hosts with a recent round."""
    found = {}
    for host in view.site.with_role(Role.CONTROL):
        facts = view.facts.get(host.name)
        if facts is not None and facts.limits is not None and facts.limits.age_s <= OLD_S:
            found[host.name] = facts.limits
    return found


def _why_none(view: View) -> Gap:
    for host in view.site.with_role(Role.CONTROL):
        facts = view.facts.get(host.name)
        if facts is None:
            return Gap(f"{host.name} did not answer", (host.name,))
        if facts.limits is None:
            return facts.gap("limits", f"the program is not installed on {host.name}")
        return Gap(f"the last round of {host.name} ended {facts.limits.age_s:.0f} s ago")
    return Gap("the site has no control host")


CHECKS: tuple[Check, ...] = (
    HostCheck(
        ids.RUNNING,
        "The program that enforces time limits runs",
        CONTROL_HOSTS,
        _running,
        "appliance-limits runs on every control host every 30 s; one of them acts. Without it, no work is ended, so interactive sessions "
        "and idle GPUs stay. Usual cause: its settings or its token are missing.",
        explains=(unit_failed("appliance-limits"),),
    ),
    ClusterCheck(
        ids.CLUSTER,
        "Exactly one control host enforces time limits",
        _cluster,
        "The holder of the Lease reads the pods of all projects. It waits for appliance queue apply, which creates its account, rights and "
        "limits. It fails if its token is rejected, rights are missing, clocks differ by a minute, or ended work still exists. It warns of "
        "work that it leaves alone, for example with an unknown owner.",
        causes=(
            FULL,
            Cause(kubernetes_ids.API, "the program uses this API", Reach.SITE),
            NOT_RUNNING,
        ),
    ),
    ClusterCheck(
        ids.METRICS,
        "GPU use is known for each pod",
        _metrics,
        "Work counts as idle only if dcgm-exporter's metrics show this for each of its GPUs, without a gap. Usual causes of missing "
        "metrics: dcgm-exporter does not report pods, Prometheus does not scrape it, or a pod has a part of a GPU, whose use is not "
        "measured.",
        causes=(
            NOT_RUNNING,
            Cause(observe_ids.TARGETS, "a target that is not scraped has no metrics", Reach.SITE),
        ),
    ),
)
