"""Runs checks over facts. A host that did not answer is a finding, never a gap."""

from collections.abc import Iterable, Mapping
from functools import cache

from appliance.checks import extra_results
from appliance.checks.causes import explain
from appliance.checks.check import ClusterCheck, HostCheck, View, failed, not_assessed, passed
from appliance.engine.look.gather import Round
from appliance.engine.look.maintenance import set_aside
from appliance.models.facts import HostFacts
from appliance.models.result import CheckResult, Kind
from appliance.models.site import Host, Role
from appliance.stages.catalog import CAUSES, CHECKS, HARDWARE, STAGES
from appliance.stages.stage import Stage

REACHABLE = extra_results.REACHABLE
RECEIPTS = extra_results.RECEIPTS
OF_HARDWARE = frozenset(check.id for check in HARDWARE)
OF_EXTERNAL = frozenset(check.id for check in CHECKS if check.of_external)


def judge_host(view: View, host: Host, ids: Iterable[str]) -> list[CheckResult]:
    """Run the host checks among ``ids`` that concern this host. It must have answered."""
    return [
        result
        for check in _of_hosts(frozenset(ids), frozenset(host.roles))
        for result in check.results(view, host, view.facts[host.name])
    ]


def judge_stage(view: View, host: Host, stage: Stage) -> list[CheckResult]:
    """Run all checks of a stage on a host that has it, and keep the results for the judgement after a plan, which uses the same facts."""
    told = judge_host(view, host, stage.checks + stage.symptoms)
    view.told[host.name, stage.name] = told
    return told


@cache
def _of_hosts(ids: frozenset[str], roles: frozenset[Role]) -> tuple[HostCheck, ...]:
    """Return the host checks among ``ids`` for hosts with any of these roles."""
    return tuple(
        check
        for check in CHECKS
        if isinstance(check, HostCheck) and check.id in ids and check.roles.intersection(roles)
    )


def judge_cluster(view: View, ids: Iterable[str]) -> list[CheckResult]:
    """Run the cluster checks among ``ids``."""
    wanted = frozenset(ids)
    return [
        result
        for check in CHECKS
        if isinstance(check, ClusterCheck) and check.id in wanted
        for result in check.results(view)
    ]


def judge_all(view: View, found: Round, ids: Iterable[str]) -> list[CheckResult]:
    """Judge as ``judge_apart``; hosts in maintenance are not assessed."""
    return set_aside(view, judge_apart(view, found, ids))


def judge_apart(view: View, found: Round, ids: Iterable[str]) -> list[CheckResult]:
    """Judge every host and the cluster, in the site's order, reachability first, then the hardware.

    If a stage is not finished, one result reports that instead of all its consequences.
    A result that follows from another failure names it. Hosts in maintenance are judged as all others.
    """
    wanted = frozenset(ids)
    hardware = wanted & OF_HARDWARE
    by_stage = {s.name: wanted.intersection(s.checks + s.symptoms) for s in STAGES}
    results: list[CheckResult] = []
    for host in view.site.hosts:
        results.append(_reachable(found, host))
        if host.name in view.facts:
            results += judge_host(view, host, hardware)
            results += unread_receipts(view.facts[host.name], wanted)
            results += _by_stage(view, host, by_stage)
    absent = {
        i for stage in STAGES if not _anywhere(view, stage) for i in stage.checks + stage.symptoms
    }
    if view.site.external_cluster:
        absent -= OF_EXTERNAL
    results += judge_cluster(view, wanted - absent)
    denied = Kind.DENIED
    told = [_with_remedy(view, r) if r.kind is denied and not r.fix else r for r in results]
    return explain(told, CAUSES)


def _with_remedy(view: View, result: CheckResult) -> CheckResult:
    """Add the remedy for data that an ordinary user may not read, if the result has no better one."""
    asked_as = {view.facts[name].user for name in _concerned(view, result) if name in view.facts}
    users = ", ".join(sorted(asked_as - {"root"}))
    fix = f"{users} has no permission to read it: set access.become: true in site.yml, or access.user: root"
    return result.model_copy(update={"fix": fix}) if users else result


def _concerned(view: View, result: CheckResult) -> tuple[str, ...]:
    return (result.host,) if result.host else tuple(host.name for host in view.site.hosts)


def _by_stage(view: View, host: Host, wanted: Mapping[str, frozenset[str]]) -> list[CheckResult]:
    results: list[CheckResult] = []
    for stage in STAGES:
        ids = wanted[stage.name]
        if not ids or not stage.concerns(view.site, host):
            continue
        if _finished(view.facts[host.name], stage):
            results += _unproved(view, host, stage)
            told = view.told.pop((host.name, stage.name), None)
            if told is None or len(ids) < len(stage.checks) + len(stage.symptoms):
                told = judge_host(view, host, ids)
            results += told
        else:
            results.append(
                not_assessed(
                    host.name,
                    f"stage {stage.name} is not finished here, so its checks did not run",
                    fix=f"appliance deploy --hosts {host.name}",
                ).of(f"stage.{stage.name}")
            )
    return results


def _unproved(view: View, host: Host, stage: Stage) -> list[CheckResult]:
    """Report a stage that has not been proved on the host since it failed, whatever its checks report now."""
    cause = view.unproved.get((stage.name, host.name))
    if cause is None:
        return []
    why = f"stage {stage.name} failed here and has not passed since: {cause}"
    fix = f"appliance deploy --hosts {host.name}"
    return [not_assessed(host.name, why, fix=fix).of(f"stage.{stage.name}")]


def unread_receipts(facts: HostFacts, wanted: frozenset[str]) -> list[CheckResult]:
    """Report that it is unknown whether the stages are finished, however good the checks look."""
    if "receipts" not in facts.errors or not wanted - OF_HARDWARE:
        return []
    why = facts.gap("receipts").after("the finished stages of this host are unknown: ")
    return [not_assessed(facts.host, why).of(RECEIPTS)]


def _finished(facts: HostFacts, stage: Stage) -> bool:
    # Receipts are readable by root only. If they cannot be read, nothing is left out.
    return stage.name in facts.receipts or "receipts" in facts.errors


def _anywhere(view: View, stage: Stage) -> bool:
    return stage.wanted(view.site) and any(_finished(f, stage) for f in view.facts.values())


def _reachable(found: Round, host: Host) -> CheckResult:
    missing = found.unanswered.get(host.name)
    if missing is None:
        return passed(host.name).of(REACHABLE)
    return failed(host.name, missing.cause, missing.fix).of(REACHABLE)
