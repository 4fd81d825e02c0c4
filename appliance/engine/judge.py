"""Runs checks over facts; hosts that did not answer are findings, never gaps."""

from collections.abc import Iterable

from appliance.checks import CHECKS
from appliance.checks.base import ClusterCheck, HostCheck, View
from appliance.engine.gather import Round
from appliance.models.result import CheckResult, Status
from appliance.models.site import Host

REACHABLE = "host.reachable"


def judge_host(view: View, host: Host, ids: Iterable[str]) -> list[CheckResult]:
    """The host checks among ``ids`` that concern this host. It must have answered."""
    wanted = frozenset(ids)
    return [
        result
        for check in CHECKS
        if isinstance(check, HostCheck)
        and check.id in wanted
        and check.roles.intersection(host.roles)
        for result in check.judge(view, host, view.facts[host.name])
    ]


def judge_cluster(view: View, ids: Iterable[str]) -> list[CheckResult]:
    """The cluster checks among ``ids``."""
    wanted = frozenset(ids)
    return [
        result
        for check in CHECKS
        if isinstance(check, ClusterCheck) and check.id in wanted
        for result in check.judge(view)
    ]


def judge_all(view: View, found: Round, ids: Iterable[str]) -> list[CheckResult]:
    """Every host and the cluster, in the site's order, reachability first."""
    wanted = tuple(ids)
    results: list[CheckResult] = []
    for host in view.site.hosts:
        results.append(_reachable(found, host))
        if host.name in view.facts:
            results += judge_host(view, host, wanted)
    return results + judge_cluster(view, wanted)


def _reachable(found: Round, host: Host) -> CheckResult:
    missing = found.unanswered.get(host.name)
    if missing is None:
        return CheckResult(id=REACHABLE, target=host.name, status=Status.PASS)
    return CheckResult(
        id=REACHABLE, target=host.name, status=Status.FAIL, cause=missing.cause, fix=missing.fix
    )
