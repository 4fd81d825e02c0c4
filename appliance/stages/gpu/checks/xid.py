"""Judges Xid messages of the driver in the kernel log by the map in xid.yml."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from appliance.checks.check import View, judged, not_assessed, passed
from appliance.models.facts import HostFacts
from appliance.models.result import Judgement, Status, place
from appliance.models.site import Host
from appliance.stages.gpu import ids
from appliance.stages.gpu.checks.each import address, devices, is_simulated
from appliance.stages.gpu.checks.sxid import HOUR, judge_switches, since
from appliance.stages.gpu.facts import Xid
from appliance.stages.gpu.xid_map import Repeat, Verdict, XidClass, XidMap, xid_map
from appliance.text import plural

RECOVERY = 154
UNLISTED = XidClass(
    verdict="warn",
    action="see docs.nvidia.com/deploy/xid-errors; save the traces with nvidia-bug-report.sh",
)
VERDICTS: tuple[Verdict, ...] = ("pass", "warn", "fail")


@dataclass(frozen=True)
class Judged:
    """One message with its verdict by the map or the site."""

    event: Xid
    gpu: str
    verdict: Verdict
    means: str
    action: str
    source: str

    def within(self, hours: float) -> bool:
        """Return whether it is at most this old; one without a time counts as new."""
        return self.event.age is None or self.event.age <= hours * HOUR


def judge_xid(view: View, host: Host, facts: HostFacts) -> Iterable[Judgement]:
    """Judge each code of each GPU by its class, then repetitions."""
    simulated = is_simulated(facts)
    if facts.xid_events is None:
        why = facts.gap("xids", "the kernel log was not read")
        return [not_assessed(host.name, why, simulated=simulated)]
    table = xid_map()
    own = view.number(ids.XID)
    hours = own[0] if own else table.hours
    judged = [_judge(view, table, facts, event) for event in _current(facts.xid_events)]
    results = _unusable_limits(view, host)
    results += [_result(host, same, hours, simulated) for same in _grouped(judged)]
    results += [_repeated(host, r, hit, table, simulated) for r, hit in _repeats(table, judged)]
    results += judge_switches(host, facts, hours, simulated)
    span = facts.kernel_log_span
    if (
        span is not None
        and span < hours * HOUR
        and all(r.status is not Status.FAIL for r in results)
    ):
        results.append(_short(host, span, hours, simulated))
    return results or [_quiet(host, facts, judged, simulated)]


def _current(events: Sequence[Xid]) -> list[Xid]:
    """All but recommendations that a later one of the same GPU replaced."""
    last = {event.bus_id: event for event in events if event.code == RECOVERY}
    return [e for e in events if e.code != RECOVERY or e is last[e.bus_id]]


def _judge(view: View, table: XidMap, facts: HostFacts, event: Xid) -> Judged:
    row = table.row(event.code)
    kind = table.class_of(row, event.severity) if row else UNLISTED
    if event.code == RECOVERY:
        kind = table.classes[table.recovery.get(_recommended(event.text), "unnamed")]
    source = table.cite(row.source) if row else "own choice: not in the map"
    verdict = kind.verdict
    action = (row.action if row and kind is table.classes[row.kind] else "") or kind.action
    if (limit := view.limit(f"gpu.xid.{event.code}")) and limit.value in VERDICTS:
        if verdict == "pass":
            action = f"drain its jobs and check it: the site sets its verdict by limit gpu.xid.{event.code}"
        verdict, source = VERDICTS[VERDICTS.index(limit.value)], limit.source
    gpu = _gpu(facts, event)
    action = action.format(gpu=gpu.removeprefix("GPU "))
    means = (row.means if row else "not in the map") + _link_text(event)
    return Judged(event, gpu, verdict, means, action, source)


def _link_text(event: Xid) -> str:
    """Return unit, severity and link of an NVLink 5 message: " (RLW_RXPIPE, Nonfatal, link 13)"."""
    parts = [event.unit, event.severity, f"link {event.link}" if event.link else ""]
    return f" ({', '.join(filter(None, parts))})" if event.severity else ""


def _recommended(text: str) -> int:
    """Return the number of the recovery action in "... changed from 0x0 (None) to 0x1 (GPU Reset Required)"."""
    word = text.rpartition(" to 0x")[2].split(" ")[0]
    return int(word, 16) if word and set(word.lower()) <= set("0123456789abcdef") else -1


def _gpu(facts: HostFacts, event: Xid) -> str:
    """Return the GPU's index if the driver still lists it, else its address."""
    at = address(event.bus_id)
    index = next((g.index for g in devices(facts) if g.bus_id and address(g.bus_id) == at), None)
    return at if index is None else f"GPU {index}"


def _grouped(judged: list[Judged]) -> list[list[Judged]]:
    """Return bad messages, in one list per GPU, code and severity."""
    groups: dict[tuple[str, int, str], list[Judged]] = {}
    for one in judged:
        if one.verdict != "pass":
            groups.setdefault((one.gpu, one.event.code, one.event.severity), []).append(one)
    return list(groups.values())


def _result(host: Host, same: list[Judged], hours: float, simulated: bool) -> Judgement:
    last = same[-1]
    fails = any(one.verdict == "fail" and one.within(hours) for one in same)
    count = len(same) + sum(one.event.omitted for one in same)
    often = f", {count} times" if count > 1 else ""
    old = "" if fails or last.verdict == "warn" else f", none within {hours:g} h"
    return judged(
        place(host.name, last.gpu),
        Status.FAIL if fails else Status.WARN,
        aspect=f"Xid {last.event.code} {last.event.severity}".strip(),
        value=last.event.code,
        unit="Xid",
        limit_source=last.source,
        evidence=last.event.text[:200],
        cause=f"Xid {last.event.code}: {last.means}{often}{since(last.event.age)}{old}",
        fix=last.action,
        simulated=simulated,
    )


def _repeats(table: XidMap, judged: list[Judged]) -> Iterable[tuple[Repeat, list[Judged]]]:
    for rule in table.repeats:
        matching = [one for one in judged if one.within(rule.hours) and _concerns(table, rule, one)]
        if rule.same_gpu:
            gpus = dict.fromkeys(one.gpu for one in matching)
            groups = [[one for one in matching if one.gpu == gpu] for gpu in gpus]
            yield from ((rule, group) for group in groups if len(group) >= rule.count)
        else:
            for code in dict.fromkeys(one.event.code for one in matching):
                same = [one for one in matching if one.event.code == code]
                if len({one.gpu for one in same}) >= rule.count:
                    yield rule, same


def _concerns(table: XidMap, rule: Repeat, one: Judged) -> bool:
    if one.verdict == "pass":
        return False
    if rule.codes:
        return one.event.code in rule.codes
    row = table.row(one.event.code)
    return (row is not None and row.kind == rule.kind) if rule.kind else one.verdict == "fail"


def _repeated(
    host: Host, rule: Repeat, hit: list[Judged], table: XidMap, simulated: bool
) -> Judgement:
    codes = ", ".join(str(code) for code in dict.fromkeys(one.event.code for one in hit))
    where = "" if rule.same_gpu else f" on {', '.join(dict.fromkeys(one.gpu for one in hit))}"
    return judged(
        place(host.name, hit[0].gpu) if rule.same_gpu else host.name,
        Status(rule.verdict),
        aspect=rule.name if rule.same_gpu else f"{rule.name}: Xid {codes}",
        value=len(hit),
        unit="messages",
        limit=rule.count,
        limit_source=table.cite(rule.source),
        cause=f"{rule.name}: {plural(len(hit), 'message')} within {rule.hours:g} h (Xid {codes}){where}",
        fix=rule.action.format(count=len(hit)),
        simulated=simulated,
    )


def _unusable_limits(view: View, host: Host) -> list[Judgement]:
    """Fail limits whose value is not a verdict."""
    given = {**view.profile.limits, **view.site.limits}
    return [
        not_assessed(
            host.name,
            f"limit {name} is {limit.value}: no verdict",
            fix="its value is pass, warn or fail",
            aspect=f"limit {name}",
        )
        for name, limit in given.items()
        if name.startswith("gpu.xid.") and limit.value not in VERDICTS
    ]


def _short(host: Host, span: float, hours: float, simulated: bool) -> Judgement:
    """Report a log that is too short: overwritten messages are unknown."""
    return not_assessed(
        host.name,
        f"the kernel log reaches back {span / HOUR:.1f} h of the {hours:g} h to judge: older messages are overwritten",
        aspect="kernel log",
        fix="journalctl --dmesg --boot --grep Xid on the host shows them; to keep more, set log_buf_len=16M on its kernel command line "
        "keeps more, limit gpu.xid asks for fewer hours",
        simulated=simulated,
    )


def _quiet(host: Host, facts: HostFacts, judged: list[Judged], simulated: bool) -> Judgement:
    codes = ", ".join(str(code) for code in sorted({one.event.code for one in judged}))
    span = facts.kernel_log_span
    reach = "since boot" if span is None else f"of the last {span / HOUR:.1f} h"
    evidence = f"kernel log {reach}" + (f"; of no consequence: Xid {codes}" if codes else "")
    common = {"unit": "messages", "limit": 0, "limit_source": "map of Xid messages (xid.yml)"}
    return passed(host.name, 0, evidence=evidence, simulated=simulated, **common)
