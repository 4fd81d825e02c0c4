"""Compares hosts with the receipts of their stages; changes by hand are listed before a deployment overwrites them."""

from collections.abc import Iterable, Iterator

from appliance.checks.check import View, failed, not_assessed, passed
from appliance.models.facts import Drift, HostFacts
from appliance.models.result import Judgement
from appliance.models.site import Host
from appliance.stages.base.variables import sysctl
from appliance.text import first_few

OF_OTHERS = frozenset({"unit", "mount", "module"})
"""Kinds that have checks of their own."""


def judge_drift(view: View, host: Host, facts: HostFacts) -> Iterable[Judgement]:
    """Pass if no managed resource was changed since, on disk or at run time."""
    unread = sum(receipt.unread for receipt in facts.receipts.values())
    changed = list(_changed(view, host, facts))
    if changed:
        what = [f"{d.kind} {d.name} ({d.expected} → {d.found})" for d in changed]
        yield failed(
            host.name,
            f"changed since the deployment: {first_few(what)}",
            f"appliance plan --hosts {host.name} lists all changes, appliance deploy --hosts {host.name} restores them",
            value=len(changed),
            unit="changes",
            limit=0,
            names=tuple(f"{d.kind} {d.name}" for d in changed),
        )
    elif "receipts" in facts.errors or unread or not facts.receipts:
        why = facts.gap("receipts", "no stage has written a receipt")
        yield not_assessed(host.name, why)
    else:
        yield passed(host.name, 0, unit="changes", limit=0)


def _changed(view: View, host: Host, facts: HostFacts) -> Iterator[Drift]:
    own = sysctl(view.profile, view.site, host)
    for receipt in facts.receipts.values():
        for drift in receipt.drift:
            is_judged = drift.kind == "sysctl" and drift.name in own
            if drift.kind not in OF_OTHERS and not is_judged:
                yield drift
