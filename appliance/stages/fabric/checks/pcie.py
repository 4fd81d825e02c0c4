"""Compares the PCIe link of each adapter with its maximum and with equal adapters."""

from collections.abc import Iterable

from appliance.checks.causes import Cause, Reach
from appliance.checks.check import (
    GPU_HOSTS,
    Check,
    HostCheck,
    Nature,
    View,
    failed,
    not_assessed,
    passed,
    warned,
)
from appliance.checks.votes import usual
from appliance.models.facts import HostFacts
from appliance.models.result import Judgement, place
from appliance.models.site import Host
from appliance.stages.base import ids as base_ids
from appliance.stages.fabric import ids
from appliance.stages.fabric.checks.ports import is_simulated, ports_of_kind, silent
from appliance.stages.fabric.facts import Port
from appliance.text import plural

Link = tuple[int, float]
"""Lanes and GT/s."""


def judge_pcie(view: View, host: Host, facts: HostFacts) -> Iterable[Judgement]:
    """Judge each adapter of the fabric once, whatever its number of ports."""
    adapters = {port.device: port for port in ports_of_kind(view, facts)}
    if not adapters:
        return silent(view, host, facts, "no port was read")
    simulated = is_simulated(facts)
    best = view.once(_best)
    found = []
    for device, port in adapters.items():
        now, most = _now(port), _most(port)
        if now is None or most is None:
            why = f"the kernel does not report the PCIe link of {device}"
            found.append(not_assessed(place(host.name, device), why, simulated=simulated))
        elif now[0] < most[0] or now[1] < most[1]:
            found.append(_slow(host, port, now, most, best.get(port.board, now), simulated))
    if found:
        return found
    evidence = f"{plural(len(adapters), 'adapter')}, all at their maximum"
    port = next(iter(adapters.values()))
    return [passed(host.name, _link_text(_now(port)), evidence=evidence, simulated=simulated)]


def _now(port: Port) -> Link | None:
    if port.pcie_width is None or port.pcie_speed is None:
        return None
    return int(port.pcie_width), port.pcie_speed


def _most(port: Port) -> Link | None:
    if port.pcie_max_width is None or port.pcie_max_speed is None:
        return None
    return int(port.pcie_max_width), port.pcie_max_speed


def _best(view: View) -> dict[str, Link]:
    """Return by board the link of adapters on most hosts; on a tie, the faster one."""
    found: dict[str, dict[str, list[Link]]] = {}
    for name, facts in view.facts.items():
        for port in {port.device: port for port in facts.ports}.values():
            if now := _now(port):
                found.setdefault(port.board, {}).setdefault(name, []).append(now)
    links = {board: usual(by_host) for board, by_host in found.items()}
    return {board: link for board, link in links.items() if link}


def _slow(
    host: Host, port: Port, now: Link, most: Link, equals: Link, simulated: bool
) -> Judgement:
    at = place(host.name, port.device)
    told = {"value": _link_text(now), "limit": _link_text(most), "simulated": simulated}
    source = {"limit_source": "the adapter's own maximum (sysfs max_link_width, max_link_speed)"}
    if now[0] < equals[0] or now[1] < equals[1]:
        return failed(
            at,
            f"the PCIe link of {port.device} runs at {_link_text(now)}, equal adapters at {_link_text(equals)}: it lacks part of its bandwidth",
            f"drain {host.name}, power it off, reseat the adapter {port.device} and its riser; then check the slot's settings in the firmware's setup",
            **told,
            **source,
        )
    return warned(
        at,
        f"the PCIe link of {port.device} runs at {_link_text(now)}, and so do equal adapters; the adapter supports {_link_text(most)}",
        "check whether the slots are slower by design: lspci -vv -s shows LnkCap and LnkSta of adapter and slot",
        **told,
        **source,
    )


def _link_text(link: Link | None) -> str:
    return f"x{link[0]} at {link[1]:g} GT/s" if link else ""


CHECKS: tuple[Check, ...] = (
    HostCheck(
        id=ids.PCIE,
        title="PCIe links of the adapters",
        nature=Nature.SYMPTOM,
        roles=GPU_HOSTS,
        judge=judge_pcie,
        explain="Width and speed of each adapter's PCIe link, compared with the adapter's own maximum and with adapters of the same board on this "
        "site. An adapter at x8 instead of x16 has half of its bandwidth, and every collective waits for it. Usual causes: a badly seated "
        "adapter or riser, or a slot that shares its lanes. If all adapters are equally slow, it is a warning, because the slots may be "
        "built so.",
        limit="the adapter's own maximum",
        causes=(Cause(base_ids.PCIE_ERRORS, "its link has errors", Reach.PART),),
    ),
)
