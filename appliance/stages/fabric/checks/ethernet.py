"""Compares lossless Ethernet settings of each RDMA port with the site."""

from collections.abc import Iterable, Iterator

from appliance.checks.check import (
    GPU_HOSTS,
    Check,
    HostCheck,
    View,
    failed,
    not_assessed,
    passed,
)
from appliance.models.facts import HostFacts
from appliance.models.result import Judgement, place
from appliance.models.site import Host
from appliance.stages.fabric import ids
from appliance.stages.fabric.checks.ports import is_simulated
from appliance.stages.fabric.facts import Port, RoceState
from appliance.stages.fabric.site import Roce

ETHERNET = "Ethernet"


def judge_roce(view: View, host: Host, facts: HostFacts) -> Iterable[Judgement]:
    """Pass if every Ethernet port pauses only the site's priority and marks packets for it."""
    wanted = view.site.fabric.roce
    if wanted is None or view.profile.hardware.fabric.link_layer != ETHERNET:
        return []
    common = {
        "limit": f"priority {wanted.priority}, DSCP {wanted.dscp}",
        "limit_source": "site.fabric.roce",
        "simulated": is_simulated(facts),
    }
    excuse = _excuse(facts)
    if excuse:
        return [not_assessed(host.name, excuse, required=False, **common)]
    ports = [
        port
        for port in facts.ports
        if port.link_layer == ETHERNET and (not wanted.devices or port.device in wanted.devices)
    ]
    if not ports:
        why = facts.gap("fabric", "no Ethernet port of an RDMA adapter was found")
        return [not_assessed(host.name, why, **common)]
    missing = sorted(set(wanted.devices) - {port.device for port in ports})
    lost = [_missing(host, name, common) for name in missing]
    return [*lost, *(_port(host, facts, port, wanted, common) for port in ports)]


def _excuse(facts: HostFacts) -> str:
    if is_simulated(facts):
        return "simulated ports have no network interface to be lossless"
    if facts.os.container:
        return "a container's ports are set up by its machine"
    return ""


def _missing(host: Host, name: str, common: dict[str, object]) -> Judgement:
    cause = f"the site lists {name}, but the host has no such Ethernet port"
    return not_assessed(place(host.name, name), cause, **common)


def _port(
    host: Host, facts: HostFacts, port: Port, wanted: Roce, common: dict[str, object]
) -> Judgement:
    target = place(host.name, port.device)
    state = port.roce
    if state is None:
        cause = "not read: the port has no interface, or stage fabric has not run"
        return not_assessed(target, cause, **common)
    wrong = list(_wrong(state, wanted))
    if wrong:
        return failed(
            target,
            f"{state.interface}: {'; '.join(wrong)}",
            "systemctl restart appliance-roce on the host; if the difference returns, look for an LLDP agent "
            "that takes its settings from the switch",
            **common,
        )
    read = ("pfc", "dscp", "tos") if wanted.mtu is None else ("pfc", "dscp", "tos", "mtu")
    unread = [name for name in read if getattr(state, name) is None]
    if unread:
        why = facts.gap("fabric", "the host does not report it")
        told = why.after(f"{state.interface}: {', '.join(unread)} could not be read: ")
        return not_assessed(target, told, **common)
    hidden = "; the driver does not report ECN" if state.ecn is None else ""
    said = f"priority {wanted.priority}, DSCP {wanted.dscp}"
    return passed(target, said, evidence=state.interface + hidden, **common)


def _wrong(state: RoceState, wanted: Roce) -> Iterator[str]:
    """Return settings that differ from the site, among those that were read."""
    if state.pfc is not None and state.pfc != (wanted.priority,):
        found = ", ".join(str(priority) for priority in state.pfc) or "none"
        yield f"PFC pauses priority {found}, not {wanted.priority}"
    goes = (state.dscp or {}).get(str(wanted.dscp))
    if state.dscp is not None and goes != wanted.priority:
        whither = "no priority" if goes is None else f"priority {goes}"
        yield f"DSCP {wanted.dscp} goes to {whither}, not {wanted.priority}"
    for name, value in (("connections", state.tos), ("queue pairs", state.traffic_class)):
        if value is not None and value != wanted.traffic_class:
            yield f"{name} have traffic class {value}, not {wanted.traffic_class}"
    if state.ecn is not None and (wanted.priority in state.ecn) != wanted.ecn:
        yield f"ECN of priority {wanted.priority} is {'off' if wanted.ecn else 'on'}"
    if wanted.mtu is not None and state.mtu is not None and state.mtu != wanted.mtu:
        yield f"its MTU is {state.mtu}, not {wanted.mtu}"


CHECKS: tuple[Check, ...] = (
    HostCheck(
        id=ids.ROCE,
        title="Ethernet ports are lossless for RDMA",
        roles=GPU_HOSTS,
        judge=judge_roce,
        explain="PFC priority, DSCP mapping and traffic class of each RDMA port, and ECN if the driver shows it. A host with different settings "
        "drops packets under load, which only shows as slow collectives. The configuration of the switches is not visible here.",
        limit="fabric.roce of the site",
        by_container=True,
    ),
)
