"""Checks the hosts' weekly scan of every file, and that it runs."""

from collections.abc import Iterable, Iterator
from typing import Any

from appliance.checks.check import View, failed, not_assessed, passed, warned
from appliance.models.facts import HostFacts
from appliance.models.result import Judgement
from appliance.models.site import Host
from appliance.stages.base.checks.foreign import unexpected_entries
from appliance.stages.base.facts import FileChange
from appliance.text import first_few

DAY = 86400
OLD = 9
"""Days: a week, the timer's random delay, and the delay on a busy host."""
GRAVE = frozenset({"package file", "setuid file", "file capability"})
"""Kinds that normal administration does not change."""
LOOK = "systemctl status appliance-weekly.timer appliance-weekly on the host shows why; systemctl start appliance-weekly runs it now"


def judge_weekly(view: View, host: Host, facts: HostFacts) -> Iterable[Judgement]:
    """Pass if the scan is recent and found only accepted changes."""
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
        rest = f", and {last.more} more" if last.more else ""
        rest += f"; not every file was read: {last.problem}" if last.problem else ""
        yield judge(
            host.name,
            f"the weekly run {span} ago found {first_few([_change_text(c) for c in changes])}{rest}",
            f"if the change is correct: appliance baseline accept --reason TEXT; otherwise compare: appliance health --since baseline --deep --hosts {host.name}",
            value=len(changes) + last.more,
            unit="changes",
            limit=0,
            names=tuple(f"{c.kind} {c.name}" for c in changes),
        )
    elif last.problem:
        yield warned(host.name, f"not every file was read: {last.problem}", LOOK, **told)
    elif days > OLD:
        what = "the last weekly run was" if last.looked else "no weekly run for"
        yield warned(host.name, f"{what} {span}{' ago' * last.looked}", LOOK, **told)
    elif not last.looked:
        yield not_assessed(host.name, "the first weekly run has not finished yet", required=False)
    else:
        yield passed(host.name, **told)


def _changes(view: View, host: Host, facts: HostFacts) -> Iterator[FileChange]:
    """Return changes, without those accepted since, and without findings of base.foreign."""
    taken = view.taken.get(host.name, {})
    strange = {found.at for found in unexpected_entries(view.site, facts)}
    for change in facts.weekly.changes if facts.weekly else ():
        is_taken = change.kind in taken and taken[change.kind].get(change.name, "") == change.now
        if not is_taken and change.name not in strange:
            yield change


def _change_text(change: FileChange) -> str:
    if not change.then and change.kind not in {"package file", "file mode"}:
        return f"{change.kind} {change.name} is new: {change.now}"
    if not change.now:
        return f"{change.kind} {change.name} was removed or is back to normal"
    return f"{change.kind} {change.name}: {change.then or 'as usual'} then, {change.now} now"
