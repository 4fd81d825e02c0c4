"""Judges messages of the kernel log by the table in kernel_log.yml."""

from collections.abc import Iterable

from appliance.checks.check import View, judged, not_assessed, passed
from appliance.models.facts import HostFacts
from appliance.models.facts_host import KernelEvent
from appliance.models.result import Judgement, Status, place
from appliance.models.site import Host
from appliance.stages.base import ids
from appliance.stages.base.kernel_log import Message, kernel_log

HOUR = 3600.0
MINUTE = 60.0
SOURCE = "kernel_log.yml: messages of Linux (own choice)"


def judge_kernel_log(view: View, host: Host, facts: HostFacts) -> Iterable[Judgement]:
    """Judge each kind of message and part within the configured hours."""
    if facts.kernel_events is None:
        if facts.os.container:
            cause = "a container has no kernel log of its own"
            return [not_assessed(host.name, cause, required=False)]
        return [not_assessed(host.name, facts.gap("xids", "the kernel log was not read"))]
    table = kernel_log()
    own = view.number(ids.KERNEL_LOG)
    hours = own[0] if own else table.hours
    recent = [one for one in facts.kernel_events if one.age <= hours * HOUR]
    found = [
        _result(host, row, one, own[1] if own else SOURCE)
        for one in recent
        if (row := table.row(one.id))
    ]
    limit = {"limit": 0, "unit": "messages", "limit_source": SOURCE}
    return found or [passed(host.name, 0, evidence=f"of the last {hours:g} h", **limit)]


def _result(host: Host, row: Message, event: KernelEvent, source: str) -> Judgement:
    what = event.what or row.id
    often = f", {event.count} times" if event.count > 1 else ""
    return judged(
        place(host.name, what),
        Status.FAIL if row.verdict == "fail" else Status.WARN,
        cause=f"{what}: {row.means}{often}, {_ago(event.age)} ago: {event.text[:120]}",
        fix=row.action.format(what=what, host=host.name),
        value=event.count,
        unit="messages",
        limit=0,
        limit_source=source,
        evidence=f"{row.id}, {row.source}",
        names=(row.id,),
    )


def _ago(age: float) -> str:
    return f"{age / HOUR:.1f} h" if age >= HOUR else f"{age / MINUTE:.0f} min"
