"""Hosts in maintenance: planned work on a host is not a failure of the site, and not a pass either."""

from collections.abc import Iterable, Mapping

from appliance.checks.check import View
from appliance.models.drain import Maintenance
from appliance.models.result import COMPLAINTS, CheckResult, Kind, Status
from appliance.models.site import Host, Role
from appliance.stages.kubernetes.checks import listed_nodes
from appliance.stages.maintenance import in_maintenance
from appliance.stages.slurm import ids
from appliance.stages.slurm.checks import listed_by


def planned(view: View) -> dict[str, Maintenance]:
    """Return the hosts that their schedulers keep out of work for maintenance, in the order of the site."""
    reasons: dict[str, list[str]] = {}
    for node in (listed_by(view)[0] or {}).values():
        reasons.setdefault(node.name, []).append(node.reason)
    for member in listed_nodes(view)[0] or ():
        reasons.setdefault(member.name, []).append(member.cordoned_for)
    found = {}
    for host in view.site.hosts:
        works = filter(None, map(Maintenance.read, reasons.get(host.name, ())))
        if work := next(works, None):
            found[host.name] = work
    return found


def set_aside(view: View, results: Iterable[CheckResult]) -> list[CheckResult]:
    """Return the results; complaints of hosts in maintenance are not assessed, and follow from the maintenance.

    A complaint stays if it names another host, or if the host also serves others: its faults concern them.
    """
    said = list(results)
    work = planned(view)
    if not work:
        return said
    # It is the cause, not a consequence of a host that is switched off for it.
    said = [_cause(r) if r.kind is Kind.MAINTENANCE else r for r in said]
    said += [
        in_maintenance(host, one, "in service").of(ids.NODES)
        for host, one in work.items()
        if not any(r.host == host and r.kind is Kind.MAINTENANCE for r in said)
    ]
    causes = {r.host: r.name for r in said if r.kind is Kind.MAINTENANCE and r.host is not None}
    hosts = {host.name: host for host in view.site.hosts}
    aside = {
        r.name: causes[r.host]
        for r in said
        if r.status in COMPLAINTS and r.host in work and _is_its_own(r, hosts)
    }
    while more := {
        r.name: aside[r.explained_by]
        for r in said
        if r.status in COMPLAINTS and r.name not in aside and r.explained_by in aside
    }:
        aside |= more
    return [
        _aside(r, aside[r.name]) if r.name in aside and r.status in COMPLAINTS else r for r in said
    ]


def _is_its_own(result: CheckResult, hosts: Mapping[str, Host]) -> bool:
    named = {name.partition("/")[0] for name in result.names} & hosts.keys()
    return set(hosts[str(result.host)].roles) == {Role.GPU} and named <= {result.host}


def _cause(result: CheckResult) -> CheckResult:
    return result.model_copy(update={"explained_by": ""})


def _aside(result: CheckResult, cause: str) -> CheckResult:
    told = {"status": Status.NOT_ASSESSED, "kind": Kind.MAINTENANCE, "explained_by": cause}
    return result.model_copy(update=told)
