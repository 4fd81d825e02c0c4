"""Finds memory modules with uncorrectable or frequent corrected errors."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from appliance.checks.check import View, failed, not_assessed, passed, warned
from appliance.checks.counters import Rate, duration, elapsed, unusable
from appliance.models.facts import HostFacts
from appliance.models.facts_host import MemoryErrors
from appliance.models.result import Judgement, place
from appliance.models.site import Host
from appliance.stages.base import ids
from appliance.text import plural, was

DAY = 86400.0
A_DAY = 10
SOURCE = "mcelog's limits of a module: 1 uncorrected, 10 corrected in 24 h"
BORROWED = "container host shares its machine's hardware"
DRIVER = (
    "lsmod | grep edac on the host; modprobe the driver of its processor (amd64_edac; Intel: i10nm_edac or skx_edac; "
    "ghes_edac if the firmware collects the errors), and list it in /etc/modules-load.d"
)
REPLACE = "drain the host and replace the module: dmidecode -t memory on the host lists the slots. A reboot resets the count, but does not fix the fault"
SOON = "replace the module at the next maintenance: dmidecode -t memory on the host lists the slots"
ELSEWHERE = "a module unknown to the driver"


def judge_memory_errors(view: View, host: Host, facts: HostFacts) -> Iterable[Judgement]:
    """Pass without uncorrected errors since the boot, and with corrected errors at most at the rate of a sound module."""
    found = facts.memory_errors
    told: dict[str, Any] = {"unit": "errors", "simulated": bool(facts.simulated)}
    if found is None:
        return [unread(host, facts, "edac", **told)]
    if not found.controllers:
        # Firmware may keep them to itself, and tell its controller: a sound host of such a maker must end well.
        why = "no EDAC driver is loaded, so memory errors are not counted"
        return [not_assessed(host.name, why, fix=DRIVER, required=False, **told)]
    results: list[Judgement] = []
    if found.corrected or found.uncorrected:
        results += _uncorrected(host, found, told)
        results += _corrected(view, host, facts, found, told)
    return results or [passed(host.name, found.corrected, **told)]


def unread(host: Host, facts: HostFacts, area: str, **told: Any) -> Judgement:
    """Return the result without EDAC data; the hardware of a container belongs to its machine."""
    is_lent = bool(facts.os.container) and area not in facts.errors
    why = BORROWED if is_lent else facts.gap(area)
    return not_assessed(host.name, why, required=not is_lent, **told)


def _rate(view: View) -> Rate:
    own = view.number(ids.MEMORY_ERRORS)
    count, source = own or (A_DAY, SOURCE)
    return Rate(count, DAY, source)


def _uncorrected(host: Host, found: MemoryErrors, told: Mapping[str, Any]) -> Iterator[Judgement]:
    for label, count in _by_module(found, "uncorrected").items():
        yield failed(
            place(host.name, *filter(None, [label])),
            f"{plural(count, 'memory error')} of {label or ELSEWHERE} could not be corrected since the host was started",
            REPLACE,
            aspect="uncorrected",
            value=count,
            limit=0,
            limit_source=SOURCE,
            **told,
        )


def _corrected(
    view: View, host: Host, facts: HostFacts, found: MemoryErrors, told: Mapping[str, Any]
) -> Iterator[Judgement]:
    """Judge corrected errors over the whole uptime, and since the previous reading if there is one."""
    before, rate = view.before.get(host.name), _rate(view)
    known = before.memory_errors if before and not unusable(before, facts) else None
    earlier = _by_module(known, "corrected") if known else {}
    for label, count in _by_module(found, "corrected").items():
        spans = [(count, found.since_s or DAY)]
        if known and before:
            grown = count - earlier.get(label, 0)
            spans.append((grown, elapsed(before, facts)))
        for errors, seconds in spans:
            if rate.exceeded(errors, seconds):
                yield warned(
                    place(host.name, *filter(None, [label])),
                    f"{plural(errors, 'memory error')} of {label or ELSEWHERE} {was(errors)} corrected in {duration(seconds)}: the module is likely to produce uncorrectable errors soon",
                    SOON,
                    aspect="corrected",
                    value=errors,
                    limit=rate.count,
                    limit_source=rate.words,
                    **told,
                )
                break


def _by_module(found: MemoryErrors, kind: str) -> dict[str, int]:
    """Return counts above zero by module; "" for errors without a known module."""
    counts: dict[str, int] = {}
    for module in found.modules:
        counts[module.label] = counts.get(module.label, 0) + getattr(module, kind)
    counts[""] = getattr(found, kind) - sum(counts.values())
    return {label: count for label, count in counts.items() if count > 0}
