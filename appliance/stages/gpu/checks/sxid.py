"""Judges SXid messages of NVSwitches in the kernel log by the driver's severity."""

from appliance.checks.check import judged
from appliance.models.facts import HostFacts
from appliance.models.result import Judgement, Status, place
from appliance.models.site import Host
from appliance.stages.gpu.facts import Xid

HOUR = 3600
FATAL = ", Fatal"
SOURCE = "NVIDIA fabric manager guide: the driver marks each SXid as fatal or non-fatal"
FATAL_FIX = (
    "drain the host, stop nvidia-dcgm, nvidia-persistenced and nvidia-fabricmanager, nvidia-smi --gpu-reset (all GPUs and NVSwitches), "
    "start them again, or reboot; if the message returns, collect nvidia-bug-report.sh and open a case"
)
HARMLESS_FIX = "check gpu.nvlink; if the same link reports it again, collect nvidia-bug-report.sh and open a case"


def judge_switches(host: Host, facts: HostFacts, hours: float, simulated: bool) -> list[Judgement]:
    """Judge each code of each NVSwitch: fatal ones fail, others warn; older than ``hours``, only fatal ones warn."""
    alike: dict[tuple[str, int], list[Xid]] = {}
    for event in facts.switch_events:
        alike.setdefault((event.bus_id, event.code), []).append(event)
    results = []
    for same in alike.values():
        young = [event for event in same if event.age is None or event.age <= hours * HOUR]
        if told := _gravest(young) or _gravest([e for e in same if FATAL in e.text]):
            results.append(_result(host, told, same, bool(young), simulated))
    return results


def _gravest(events: list[Xid]) -> Xid | None:
    """Return the last fatal message, else the last one."""
    return next((e for e in reversed(events) if FATAL in e.text), events[-1] if events else None)


def _result(host: Host, told: Xid, same: list[Xid], young: bool, simulated: bool) -> Judgement:
    fatal = FATAL in told.text
    said = told.text.partition(f": {told.code}, ")[2]
    count = len(same) + sum(event.omitted for event in same)
    often = f", {count} times" if count > 1 else ""
    return judged(
        place(host.name, f"NVSwitch {told.bus_id}"),
        Status.FAIL if fatal and young else Status.WARN,
        aspect=f"SXid {told.code}",
        value=told.code,
        unit="SXid",
        limit_source=SOURCE,
        evidence=told.text[:200],
        cause=f"SXid {told.code} of an NVSwitch: {said[:120]}{often}{since(told.age)}",
        fix=FATAL_FIX if fatal else HARMLESS_FIX,
        simulated=simulated,
    )


def since(age: float | None) -> str:
    """Return the age of a message, as the end of a sentence."""
    if age is None:
        return ""
    return f", {age / HOUR:.0f} h ago" if age >= 2 * HOUR else f", {age / 60:.0f} min ago"
