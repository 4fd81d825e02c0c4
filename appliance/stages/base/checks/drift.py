"""Compares hosts with the receipts of their stages; changes by hand are listed before a deployment overwrites them."""

import re
from collections.abc import Iterable, Iterator

from appliance.checks.check import View, failed, not_assessed, passed
from appliance.models.facts import Drift, HostFacts
from appliance.models.result import Judgement
from appliance.models.site import Host
from appliance.stages.base.variables import sysctl
from appliance.text import first_few

UNIT = re.compile(r"[\w@.-]{1,100}\.service", re.ASCII)
BY_COMMAND = re.compile(r"/(?:etc|run)/systemd/system\.control/[\w@.-]+\.d/[\w.-]+\.conf", re.ASCII)
"""Drop-ins of systemctl(1), set-property."""
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
            _lifted(host, changed)
            + f"appliance plan --hosts {host.name} lists all changes, appliance deploy --hosts {host.name} restores them",
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


def _lifted(host: Host, changed: list[Drift]) -> str:
    """What takes the drop-ins away that ``systemctl set-property`` wrote: a deployment leaves them, because no stage has a file there."""
    found = {
        (drift.name, path)
        for drift in changed
        if drift.kind == "unit file" and UNIT.fullmatch(drift.name)
        for path in drift.found.split()
        if BY_COMMAND.fullmatch(path)
    }
    if not found:
        return ""
    files = " ".join(sorted(path for _, path in found))
    units = " ".join(sorted({name for name, _ in found}))
    return f"on {host.name}: rm {files}; systemctl daemon-reload; systemctl restart {units}; then "


def _changed(view: View, host: Host, facts: HostFacts) -> Iterator[Drift]:
    own = sysctl(view.profile, view.site, host)
    for receipt in facts.receipts.values():
        for drift in receipt.drift:
            is_judged = drift.kind == "sysctl" and drift.name in own
            if drift.kind not in OF_OTHERS and not is_judged:
                yield drift
