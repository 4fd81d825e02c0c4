"""Checks whether clocks follow a source and agree."""

from collections.abc import Iterable

from appliance.checks.check import View, failed, not_assessed, passed, warned
from appliance.models.facts import HostFacts
from appliance.models.gap import Gap
from appliance.models.result import Judgement
from appliance.models.site import Host
from appliance.stages.base import ids
from appliance.stages.base.checks.neighbours import removal

OFFSET_SECONDS = 0.1
SPREAD_SECONDS = 1.0
SILENT_SECONDS = 3 * 3600.0
"""Ten times the longest interval at which chronyd polls by default (1024 s)."""
UNANSWERED, ALL_UNANSWERED = 3, 8
"""Consecutive unanswered queries: one can be lost by chance; chronyd keeps eight."""
NTP = 123
LOOK_SECONDS = 90.0
"""Hosts are queried in parallel; each answers within 45 s of its turn."""
OWN_CHOICE = (
    "own choice: above NTP's accuracy on a LAN, far below the tolerance of jobs and certificates"
)


def judge_clock(view: View, host: Host, facts: HostFacts) -> Iterable[Judgement]:
    """Pass if the clock follows a source with a small offset."""
    clock = facts.clock
    bound, source = _limit(view, ids.CLOCK, OFFSET_SECONDS)
    common = {"unit": "s", "limit": bound, "limit_source": source}
    if clock.synchronised is False:
        cause = f"the clock follows no source ({clock.daemon or 'no time daemon'})"
        fix = f"on {host.name}: systemctl restart chrony || systemctl restart chronyd; the site's servers are in base.ntp_servers"
        if clock.sources:
            cause += f": {', '.join(clock.sources)} {'does' if len(clock.sources) == 1 else 'do'} not answer"
            fix = (
                f"if these are not the servers of base.ntp_servers: appliance deploy --stage base --hosts {host.name}; "
                f"else open port 123/udp from {host.name} to them"
            )
        elif clock.sources is not None:
            cause += ": no server is configured"
            fix = f"on {host.name}: systemctl restart chrony || systemctl restart chronyd; if it still has none: appliance deploy --stage base --hosts {host.name}"
        return [failed(host.name, cause, fix, **common)]
    if clock.online == 0:
        cause = "chronyd queries no server: all were set offline or removed since it started, so the clock drifts"
        fix = f"on {host.name}: systemctl restart chrony || systemctl restart chronyd; if it still queries none: appliance deploy --stage base --hosts {host.name}"
        return [failed(host.name, cause, fix, **common)]
    if clock.synchronised is None or clock.offset is None:
        why = facts.gap("clock", "the time daemon reported no offset")
        return [not_assessed(host.name, why, **common)]
    offset = round(clock.offset, 6)
    silent = round(clock.time - clock.updated) if clock.updated is not None else 0
    if abs(offset) <= bound and silent > SILENT_SECONDS:
        return [_silent(host, clock.source, silent)]
    if abs(offset) <= bound and (clock.unanswered or 0) >= UNANSWERED:
        return [_unanswered(view, host, clock.source, clock.unanswered or 0)]
    if abs(offset) <= bound:
        evidence = f"source {clock.source}"
        return [passed(host.name, offset, evidence=evidence, **common)]
    cause = f"the clock is {abs(offset):g} s off its source {clock.source}"
    fix = "run chronyc makestep on the host; if the clock drifts again, check the board's clock"
    return [failed(host.name, cause, fix, value=offset, **common)]


def _silent(host: Host, source: str, seconds: int) -> Judgement:
    """Report a silent source: chronyd reports synchronisation for hours without one."""
    return warned(
        host.name,
        f"its source {source} has not answered for {seconds / 3600:.1f} h: the clock is not synchronized",
        "chronyc sources on the host shows whether the source can be reached; then check port 123/udp and the firewalls in between",
        value=seconds,
        unit="s",
        limit=SILENT_SECONDS,
        limit_source="own choice: ten of chronyd's longest intervals",
    )


def _unanswered(view: View, host: Host, source: str, queries: int) -> Judgement:
    """Report unanswered queries. The clock stays right for a while; the usual cause is a firewall rule added by hand."""
    server = next((one for one in view.site.hosts if str(one.address) == source), None)
    both = (host, server) if server else (host,)
    rules = [removal(one.name, view.facts.get(one.name), NTP) for one in both]
    fix = f"open port 123/udp from {host.name} to {source}; nft list ruleset on both shows the rule that drops it"
    if rule := next(filter(None, rules), ""):
        then = "" if rule.startswith(f"on {host.name}:") else f"on {host.name}: "
        fix = f"{rule}; {then}systemctl restart chrony || systemctl restart chronyd"
    judged = failed if queries >= ALL_UNANSWERED else warned
    return judged(
        host.name,
        f"no time server answered the last {queries} queries (its source was {source}): the clock runs free",
        fix,
        value=queries,
        unit="queries",
        limit=UNANSWERED,
        limit_source="own choice: chronyd keeps the last 8 queries",
        evidence="chronyc sources",
        names=(server.name,) if server else (),
    )


def judge_clock_spread(view: View) -> Iterable[Judgement]:
    """Compare the hosts' offsets; munge and job logs tolerate only small differences."""
    bound, source = _limit(view, ids.CLOCK_SPREAD, SPREAD_SECONDS)
    common = {"unit": "s", "limit": bound, "limit_source": source}
    if apart := _apart(view):
        return [apart]
    offsets = {name: facts.clock.offset for name, facts in view.facts.items()}
    unknown = sorted(
        name
        for name, facts in view.facts.items()
        if facts.clock.offset is None or not facts.clock.synchronised
    )
    silent = sorted({host.name for host in view.site.hosts} - set(view.facts))
    if unknown or silent or not offsets:
        mute = (*unknown, *silent)
        why = Gap(f"no known offset of {', '.join(mute) or 'any host'}", mute)
        return [not_assessed("cluster", why, **common)]
    known = {name: offset for name, offset in offsets.items() if offset is not None}
    low, high = min(known, key=known.__getitem__), max(known, key=known.__getitem__)
    spread = round(known[high] - known[low], 6)
    if spread <= bound:
        return [passed("cluster", spread, **common)]
    cause = f"{low} and {high} are {spread:g} s apart"
    fix = f"chronyc tracking on {low} and {high} shows which of them is wrong"
    ends = {"names": (low, high)}
    return [failed("cluster", cause, fix, value=spread, **ends, **common)]


def _apart(view: View) -> Judgement | None:
    """Compare the hosts' times, independent of their time daemons."""
    times = {name: facts.clock.time for name, facts in view.facts.items()}
    if len(times) < 2:
        return None
    low, high = min(times, key=times.__getitem__), max(times, key=times.__getitem__)
    distance = times[high] - times[low]
    if distance <= LOOK_SECONDS:
        return None
    middle = sorted(times.values())[len(times) // 2]
    off = low if middle - times[low] > times[high] - middle else high
    told = f"{low} and {high} are {distance:.0f} s apart by their own clocks"
    # Of two hosts, it is unknown which one is wrong.
    wrong = (off,) if len(times) > 2 else (low, high)
    return failed(
        "cluster",
        f"{told}; most hosts differ from {off}" if len(times) > 2 else told,
        f"on {' and '.join(wrong)}: chronyc makestep; then chronyc sources shows its source",
        value=round(distance),
        unit="s",
        limit=LOOK_SECONDS,
        limit_source="own choice: above the duration of a check, far below the 300 s of munge",
        names=wrong,
    )


def _limit(view: View, check_id: str, default: float) -> tuple[float, str]:
    return view.number(check_id) or (default, OWN_CHOICE)
