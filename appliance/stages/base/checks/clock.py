"""Do clocks follow a source, and agree."""

from collections.abc import Iterable

from appliance.checks.check import View, failed, not_assessed, passed, warned
from appliance.models.facts import HostFacts
from appliance.models.gap import Gap
from appliance.models.result import Judgement
from appliance.models.site import Host
from appliance.stages.base import ids

OFFSET_SECONDS = 0.1
SPREAD_SECONDS = 1.0
SILENT_SECONDS = 3 * 3600.0
"""Ten times the longest interval at which chronyd asks by default (1024 s)."""
OWN_CHOICE = "own choice: far below what Slurm and munge tolerate, above what NTP reaches on a LAN"


def judge_clock(view: View, host: Host, facts: HostFacts) -> Iterable[Judgement]:
    """The clock follows a source, and closely."""
    clock = facts.clock
    bound, source = _limit(view, ids.CLOCK, OFFSET_SECONDS)
    common = {"unit": "s", "limit": bound, "limit_source": source}
    if clock.synchronised is False:
        cause = f"the clock follows no source ({clock.daemon or 'no time daemon'})"
        fix = (
            "chronyc sources on the host shows which server is silent; base.ntp_servers names them"
        )
        return [failed(host.name, cause, fix, **common)]
    if clock.synchronised is None or clock.offset is None:
        why = facts.gap("clock", "the time daemon gave no offset")
        return [not_assessed(host.name, why, **common)]
    offset = round(clock.offset, 6)
    silent = round(clock.time - clock.updated) if clock.updated is not None else 0
    if abs(offset) <= bound and silent > SILENT_SECONDS:
        return [_silent(host, clock.source, silent)]
    if abs(offset) <= bound:
        evidence = f"source {clock.source}"
        return [passed(host.name, offset, evidence=evidence, **common)]
    cause = f"the clock is {abs(offset):g} s off its source {clock.source}"
    fix = "chronyc makestep on the host sets it at once; if it runs away again, look at the board's clock"
    return [failed(host.name, cause, fix, value=offset, **common)]


def _silent(host: Host, source: str, seconds: int) -> Judgement:
    """chronyd calls itself synchronised however long its source has said nothing."""
    return warned(
        host.name,
        f"its source {source} has said nothing for {seconds / 3600:.1f} h: the clock runs free",
        "chronyc sources on the host shows whether the source can be reached; then its port 123/udp and the firewalls between",
        value=seconds,
        unit="s",
        limit=SILENT_SECONDS,
        limit_source="own choice: ten of chronyd's longest intervals",
    )


def judge_clock_spread(view: View) -> Iterable[Judgement]:
    """No two hosts are further apart than munge and job logs bear, as their offsets tell."""
    bound, source = _limit(view, ids.CLOCK_SPREAD, SPREAD_SECONDS)
    common = {"unit": "s", "limit": bound, "limit_source": source}
    offsets = {name: facts.clock.offset for name, facts in view.facts.items()}
    unknown = sorted(
        name
        for name, facts in view.facts.items()
        if facts.clock.offset is None or not facts.clock.synchronised
    )
    silent = sorted({host.name for host in view.site.hosts} - set(view.facts))
    if unknown or silent or not offsets:
        mute = (*unknown, *silent)
        why = Gap(f"no offset known of {', '.join(mute) or 'any host'}", mute)
        return [not_assessed("cluster", why, **common)]
    known = {name: offset for name, offset in offsets.items() if offset is not None}
    low, high = min(known, key=known.__getitem__), max(known, key=known.__getitem__)
    spread = round(known[high] - known[low], 6)
    if spread <= bound:
        return [passed("cluster", spread, **common)]
    cause = f"{low} and {high} are {spread:g} s apart"
    fix = f"chronyc tracking on {low} and {high} shows which of them is off"
    ends = {"names": (low, high)}
    return [failed("cluster", cause, fix, value=spread, **ends, **common)]


def _limit(view: View, check_id: str, default: float) -> tuple[float, str]:
    return view.number(check_id) or (default, OWN_CHOICE)
