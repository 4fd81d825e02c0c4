"""Checks PCIe errors of GPUs, adapters, drives and the bridges above them: fatal ones fail, others warn by their growth."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from appliance.checks.check import View, failed, not_assessed, passed, warned
from appliance.checks.counters import Rate, duration, elapsed, unusable
from appliance.models.facts import HostFacts
from appliance.models.facts_host import PcieDevice, PcieErrors
from appliance.models.result import Judgement, place
from appliance.models.site import Host
from appliance.stages.base import ids
from appliance.stages.base.checks.memory_errors import unread
from appliance.text import plural, was

A_MINUTE = 8
SOURCE = "NVIDIA DCGM: PCIe replays of a link"
OWN = "own choice"
COUNTERS = "grep . /sys/bus/pci/devices/{at}/aer_dev_* on the host shows the kind"
SEAT = (
    f"{COUNTERS}; drain the host, power it off, and reseat {{device}} and its riser or cable; "
    "if errors return, replace them. A reboot resets the count, but does not fix the fault"
)
AER = (
    "journalctl -k -g AER on the host; remove pci=noaer from its kernel command line, and set AER to OS native in the "
    "firmware's setup"
)


def judge_pcie_errors(view: View, host: Host, facts: HostFacts) -> Iterable[Judgement]:
    """Pass without fatal errors since the device appeared, if the others grow slowly enough."""
    found = facts.pcie_errors
    told: dict[str, Any] = {"unit": "errors", "simulated": bool(facts.simulated)}
    if found is None:
        return [unread(host, facts, "aer", **told)]
    if not found.devices and not found.uncounted:
        return []  # No GPU, no adapter, no drive.
    if not found.devices:
        why = f"the kernel does not count PCIe errors (AER) of {plural(len(found.uncounted), 'device')} (GPUs, adapters, drives)"
        return [not_assessed(host.name, why, fix=AER, required=False, **told)]
    results: list[Judgement] = []
    if found.errors:
        results += _fatal(host, found, told)
        results += _others(view, host, facts, found, told)
    if found.uncounted:
        why = f"the kernel does not count PCIe errors of {', '.join(found.uncounted)}"
        gap = not_assessed(place(host.name, *found.uncounted), why, required=False, **told)
        return [*results, gap]
    return results or [passed(host.name, 0, evidence=plural(found.devices, "device"), **told)]


def _fatal(host: Host, found: PcieErrors, told: Mapping[str, Any]) -> Iterator[Judgement]:
    for device in found.errors:
        if device.fatal:
            yield failed(
                place(host.name, device.at),
                f"{plural(device.fatal, 'fatal PCIe error')} of {device.device} since it came up: its link was lost or reset",
                SEAT.format(at=device.at, device=device.device),
                aspect="fatal",
                value=device.fatal,
                limit=0,
                limit_source=OWN,
                **told,
            )


def _others(
    view: View, host: Host, facts: HostFacts, found: PcieErrors, told: Mapping[str, Any]
) -> Iterator[Judgement]:
    """Judge by the growth since the previous reading; without one, only zero can be judged."""
    counting = [device for device in found.errors if device.nonfatal or device.correctable]
    if not counting:
        return
    before = view.before.get(host.name)
    problem = unusable(before, facts)
    known = before.pcie_errors if before else None
    if before is None or known is None or problem:
        total = sum(device.nonfatal + device.correctable for device in counting)
        why = problem or "the previous reading has none of them"
        shown = ", ".join(f"{d.device} {d.at} {d.nonfatal + d.correctable}" for d in counting[:3])
        yield not_assessed(host.name, why, required=False, value=total, evidence=shown, **told)
        return
    earlier = {device.at: device for device in known.errors}
    own = view.number(ids.PCIE_ERRORS)
    count, source = own or (A_MINUTE, SOURCE)
    rate, seconds = Rate(count, 60.0, source), elapsed(before, facts)
    bad = [
        result
        for device in counting
        for result in _growth(host, device, earlier.get(device.at), rate, seconds, told)
    ]
    if not bad and not any(device.fatal for device in found.errors) and not found.uncounted:
        yield passed(host.name, 0, evidence=plural(found.devices, "device"), **told)
    yield from bad


def _growth(
    host: Host,
    now: PcieDevice,
    then: PcieDevice | None,
    rate: Rate,
    seconds: float,
    told: Mapping[str, Any],
) -> Iterator[Judgement]:
    lost = _grown(now.nonfatal, then.nonfatal if then else 0)
    repeated = _grown(now.correctable, then.correctable if then else 0)
    at, fix = place(host.name, now.at), SEAT.format(at=now.at, device=now.device)
    if lost:
        cause = f"{plural(lost, 'PCIe transfer')} of {now.device} {was(lost)} lost in {duration(seconds)} (non-fatal)"
        limits = {"value": lost, "limit": 0, "limit_source": OWN}
        yield warned(at, cause, fix, aspect="non-fatal", **limits, **told)
    if rate.exceeded(repeated, seconds):
        cause = f"{plural(repeated, 'PCIe error')} of {now.device} {was(repeated)} corrected in {duration(seconds)}: a bad link"
        limits = {"value": repeated, "limit": rate.count, "limit_source": f"{rate.words}, a minute"}
        yield warned(at, cause, fix, aspect="corrected", **limits, **told)


def _grown(now: int, then: int) -> int:
    """Return the growth; a device that was removed from the bus counts from zero again."""
    return now - then if now >= then else now
