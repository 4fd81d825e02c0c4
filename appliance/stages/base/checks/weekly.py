"""What the hosts' own weekly look at every file found, and whether it is taken at all."""

from collections.abc import Iterable, Iterator
from typing import Any

from appliance.checks.check import View, failed, not_assessed, passed, warned
from appliance.models.facts import HostFacts
from appliance.models.result import Judgement
from appliance.models.site import Host
from appliance.stages.base.checks.foreign import strangers
from appliance.stages.base.facts import FileChange
from appliance.text import first_few

DAY = 86400
OLD = 9
"""Days: a week, what the timer spreads the hosts over, and what a busy host takes."""
GRAVE = frozenset({"package file", "setuid file", "file capability"})
"""Kinds that no administrator's work of the day brings."""
LOOK = "systemctl status appliance-weekly.timer appliance-weekly on the host says why; systemctl start appliance-weekly looks now"


def judge_weekly(view: View, host: Host, facts: HostFacts) -> Iterable[Judgement]:
    """It was taken lately, and found nothing that nobody accepted."""
    last = facts.weekly
    if last is None:
        why = facts.gap("weekly", "not set up there")
        yield not_assessed(host.name, why, required="weekly" in facts.errors)
        return
    days = round(last.age_s / DAY, 1)
    span = f"{days:g} {'day' if days == 1 else 'days'}"
    told: dict[str, Any] = {"value": days, "unit": "days", "limit": OLD}
    changes = list(_changes(view, host, facts))
    if changes:
        judge = failed if any(c.kind in GRAVE for c in changes) else warned
        rest = f", and {last.more} that are not named" if last.more else ""
        rest += f"; not every file was looked at: {last.problem}" if last.problem else ""
        yield judge(
            host.name,
            f"its look at every file {span} ago found {first_few([_said(c) for c in changes])}{rest}",
            f"if that is right: appliance baseline accept --reason TEXT; else look there, appliance health --since baseline --deep --host {host.name}",
            value=len(changes) + last.more,
            unit="changes",
            limit=0,
            names=tuple(f"{c.kind} {c.name}" for c in changes),
        )
    elif last.problem:
        yield warned(host.name, f"not every file was looked at: {last.problem}", LOOK, **told)
    elif days > OLD:
        what = "the last look at every file was" if last.looked else "no look at every file for"
        yield warned(host.name, f"{what} {span}{' ago' * last.looked}", LOOK, **told)
    elif not last.looked:
        yield not_assessed(host.name, "the first look at every file is yet to come", required=False)
    else:
        yield passed(host.name, **told)


def _changes(view: View, host: Host, facts: HostFacts) -> Iterator[FileChange]:
    """But for what somebody accepted since, and what base.foreign names."""
    taken = view.taken.get(host.name, {})
    strange = {found.at for found in strangers(view.site, facts)}
    for change in facts.weekly.changes if facts.weekly else ():
        is_taken = change.kind in taken and taken[change.kind].get(change.name, "") == change.now
        if not is_taken and change.name not in strange:
            yield change


def _said(change: FileChange) -> str:
    if not change.then and change.kind not in {"package file", "file mode"}:
        return f"{change.kind} {change.name} is new: {change.now}"
    if not change.now:
        return f"{change.kind} {change.name} is gone or as usual again"
    return f"{change.kind} {change.name}: {change.then or 'as usual'} then, {change.now} now"
