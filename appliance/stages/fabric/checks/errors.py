"""Checks the growth of a port's error counters between two readings."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from appliance.checks.check import View, failed, not_assessed, passed
from appliance.checks.counters import NONE, Rate, duration, elapsed, unusable
from appliance.models.facts import HostFacts
from appliance.models.result import Judgement, Status, place
from appliance.models.site import Host
from appliance.stages.fabric.facts import Port
from appliance.text import plural

SOURCE = "NVSentinel's InfiniBand limits"


BOUNDS: Mapping[str, Rate] = {
    "link_downed": NONE,
    "local_link_integrity_errors": NONE,
    "excessive_buffer_overrun_errors": NONE,
    "rnr_nak_retry_err": NONE,
    "symbol_error": Rate(120, 3600.0, "120/h"),
    "link_error_recovery": Rate(5, 60.0, "5/min"),
    "port_rcv_errors": Rate(10, 1.0, "10/s"),
    "port_xmit_discards": Rate(100, 1.0, "100/s"),
}


MEANINGS: Mapping[str, str] = {
    "link_downed": "the link goes down and comes back (flapping)",
    "symbol_error": "the signal is bad: a cable, connector or transceiver",
    "link_error_recovery": "the link retrains again and again",
    "local_link_integrity_errors": "the signal is bad: a cable, connector or transceiver",
    "port_rcv_errors": "packets arrive damaged",
    "excessive_buffer_overrun_errors": "the far end sends more than its credits allow",
    "port_xmit_discards": "packets are dropped: congestion, or a far end that is down",
    "rnr_nak_retry_err": "a receiver posts its buffers too late",
}


CABLE = (
    "clean and reseat the cable of {device} at both ends, then replace it; "
    "ibqueryerrors on the control host shows whether the switch's end counts errors, too"
)
REMEDIES: Mapping[str, str] = {
    "port_xmit_discards": "iblinkinfo shows whether the far end of {device} is up; ibqueryerrors on the control host shows "
    "the congested ports",
    "excessive_buffer_overrun_errors": "update the firmware of {device} and of its switch to compatible versions (fabric.firmware)",
    "rnr_nak_retry_err": "check the jobs that use {device} on this host and their peers: the receiver is too slow; the cable is good",
}
"""Remedies of counters that do not indicate the cable."""
ETHERNET_CABLE = (
    "clean and reseat the cable of {device} at both ends, then replace it; ethtool -S on the host and the counters of the "
    "switch's port show which end has errors"
)
CEILINGS: Mapping[str, int] = {
    "symbol_error": 0xFFFF,
    "port_rcv_errors": 0xFFFF,
    "port_xmit_discards": 0xFFFF,
    "link_error_recovery": 0xFF,
    "link_downed": 0xFF,
    "local_link_integrity_errors": 0xF,
    "excessive_buffer_overrun_errors": 0xF,
}
"""The values at which PortCounters stop (InfiniBand Architecture Specification, PerfMgt: 16, 8 and 4 bits)."""


@dataclass(frozen=True)
class Growth:
    """Growth of a counter of a port."""

    port: Port
    name: str
    count: int


def judge_errors(view: View, host: Host, facts: HostFacts) -> Iterable[Judgement]:
    """Judge the growth since the previous reading; without one, only zero can be judged."""
    expected = view.profile.hardware.fabric
    if not expected.ports:
        return []
    common = {"unit": "errors", "required": False, "simulated": "fabric" in facts.simulated}
    own = [port for port in facts.ports if port.link_layer == expected.link_layer]
    ports = [port for port in own if not BOUNDS.keys().isdisjoint(port.counters)]
    if not ports:
        why = facts.gap("fabric", "no port shows counters")
        return [not_assessed(host.name, why, **common)]
    results = _counted(view, host, facts, ports, common)
    mute = [port.device for port in own if BOUNDS.keys().isdisjoint(port.counters)]
    if not mute:
        return results
    cause = f"{', '.join(mute)}: no error counter is available"
    told = [result for result in results if result.status is not Status.PASS]
    return [*told, not_assessed(host.name, cause, aspect="no counters", **common)]


def _counted(
    view: View,
    host: Host,
    facts: HostFacts,
    ports: list[Port],
    common: Mapping[str, object],
) -> list[Judgement]:
    total = sum(port.counters.get(name, 0) for port in ports for name in BOUNDS)
    if not total:
        return [passed(host.name, 0, evidence=plural(len(ports), "port"), **common)]
    before = view.before.get(host.name)
    problem = unusable(before, facts)
    if before is None or problem:
        shown = ", ".join(_largest(ports))
        return [not_assessed(host.name, problem, value=total, evidence=shown, **common)]
    return _grown(host, before, facts, ports, common)


def _grown(
    host: Host,
    before: HostFacts,
    facts: HostFacts,
    ports: list[Port],
    common: Mapping[str, object],
) -> list[Judgement]:
    seconds = elapsed(before, facts)
    earlier = {(p.device, p.port): p for p in before.ports}
    grown = [g for port in ports for g in _growths(earlier.get((port.device, port.port)), port)]
    reset = [g for g in grown if g.count < 0]
    bad = [g for g in grown if g.count > 0 and BOUNDS[g.name].exceeded(g.count, seconds)]
    results = [_growing(host, growth, seconds, common) for growth in bad]
    if reset:
        cause = f"{reset[0].name} of {reset[0].port.device} went backwards: counters were cleared in between"
        results.append(not_assessed(host.name, cause, aspect="cleared counters", **common))
    full = [g for g in grown if g not in bad and g.port.counters[g.name] == CEILINGS.get(g.name)]
    results += [_full(host, growth, common) for growth in full]
    compared = {(growth.port.device, growth.port.port) for growth in grown}
    unread = [port.device for port in ports if (port.device, port.port) not in compared]
    if unread:
        cause = f"{', '.join(unread)}: not up at the previous reading, or without these counters"
        results.append(not_assessed(host.name, cause, aspect="no previous reading", **common))
    if results:
        return results
    total = sum(growth.count for growth in grown)
    evidence = f"{plural(len(ports), 'port')} in {duration(seconds)}"
    return [passed(host.name, total, evidence=evidence, **common)]


def _growths(before: Port | None, now: Port) -> list[Growth]:
    """Return the growth of counters that both readings have, for ports that were up in both."""
    if before is None or not before.state.upper().endswith("ACTIVE"):
        return []
    return [
        Growth(now, name, now.counters[name] - before.counters[name])
        for name in BOUNDS
        if name in now.counters and name in before.counters
    ]


def _largest(ports: list[Port]) -> list[str]:
    counts = {
        f"{port.device} {name} {port.counters[name]}": port.counters[name]
        for port in ports
        for name in BOUNDS
        if port.counters.get(name)
    }
    return sorted(counts, key=lambda text: -counts[text])[:3]


def _full(host: Host, growth: Growth, common: Mapping[str, object]) -> Judgement:
    """Report counters at their maximum, which no longer show new errors."""
    device = growth.port.device
    return not_assessed(
        place(host.name, device),
        f"{growth.name} of {device} is {growth.port.counters[growth.name]}, its highest value: it cannot grow",
        aspect=growth.name,
        fix=f"perfquery -R -C {device} -P {growth.port.port} on the host clears the port's counters; then run appliance health again",
        **{**common, "required": True},
    )


def _growing(host: Host, growth: Growth, seconds: float, common: Mapping[str, object]) -> Judgement:
    port, bound = growth.port, BOUNDS[growth.name]
    usual = CABLE if port.link_layer == "InfiniBand" else ETHERNET_CABLE
    return failed(
        place(host.name, port.device),
        f"{growth.name} grew by {growth.count} in {duration(seconds)}: {MEANINGS[growth.name]}",
        REMEDIES.get(growth.name, usual).format(device=port.device),
        aspect=growth.name,
        value=growth.count,
        limit=bound.words,
        limit_source=SOURCE,
        **{**common, "required": True, "unit": ""},
    )
