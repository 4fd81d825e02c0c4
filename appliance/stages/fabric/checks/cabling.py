"""Compares every cable with the site."""

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from appliance.checks.causes import SILENT, UNASKED, Cause, Reach
from appliance.checks.check import Check, ClusterCheck, Nature, View, failed, not_assessed, passed
from appliance.models.result import Judgement, place
from appliance.stages.fabric import ids
from appliance.stages.fabric.cabling import Cables, Plug, Socket, number, ports_of
from appliance.stages.fabric.causes import LINK_DOWN, OTHER_FABRIC, PORT_MISSING
from appliance.stages.fabric.checks.ports import beyond, ports_of_kind
from appliance.stages.fabric.checks.subnet import (
    cables_of,
    discovered,
    gpu_hosts,
    infiniband,
    is_simulated,
    why,
)
from appliance.stages.fabric.checks.trunks import judge_trunks
from appliance.stages.fabric.facts import Port, Topology
from appliance.stages.fabric.rails import wanted_by_rule
from appliance.text import plural

SOURCES = {"rail-optimised": "site.fabric.cabling", "listed": "site.fabric.cables"}


@dataclass(frozen=True)
class Comparison:
    """The cables as wanted and as found; ``exact``: by port of the switch, not by switch alone."""

    view: View
    topology: Topology
    wanted: Cables
    found: Cables
    ports: Mapping[Plug, Port]
    exact: bool

    def key(self, socket: Socket) -> Socket:
        """Return the part of a place that is compared."""
        return socket if self.exact else Socket(socket.switch)

    def is_right(self, plug: Plug) -> bool:
        """Return whether this adapter's cable is in the right place."""
        return self.key(self.found[plug]) == self.key(self.wanted[plug])

    @property
    def common(self) -> dict[str, object]:
        """Return fields that every result of this check has."""
        stated = self.view.site.fabric.cabling
        return {"limit_source": SOURCES[stated], "simulated": is_simulated(self.view)}


def judge_cabling(view: View) -> Iterable[Judgement]:
    """Compare the discovered fabric with the site's cabling."""
    if not infiniband(view):
        return []
    rest = {"simulated": is_simulated(view)}
    if view.site.fabric.cabling == "unstated":
        fix = "set fabric.cabling in site.yml to rail-optimised, or to listed with fabric.cables"
        cause = "the site does not describe the cabling of the fabric"
        return [not_assessed("cluster", cause, fix=fix, required=False, **rest)]
    seen = discovered(view)
    if seen is None:
        gap = why(view, ("topology", "fabric"), "no control host could discover the fabric")
        return [not_assessed("cluster", gap, **rest)]
    compared = compare(view, seen[1])
    results = [*_faults(compared), *judge_trunks(view, seen[1])]
    return results or [_good(compared)]


def compare(view: View, topology: Topology) -> Comparison:
    """Return both sides by adapter."""
    found, there = cables_of(view, topology), _ports(view)
    fabric = view.site.fabric
    if fabric.cabling == "listed":
        names = {number(s.guid): s.description for s in topology.switches}
        wanted = {
            Plug(c.host, c.hca): Socket(names.get(number(c.switch), c.switch), c.port)
            for c in fabric.cables
        }
        return Comparison(view, topology, wanted, found, there, exact=True)
    wanted = wanted_by_rule(found, tuple(gpu_hosts(view)))
    kept = {p: s for p, s in wanted.items() if p in found or p in there or p.host not in view.facts}
    return Comparison(view, topology, kept, found, there, exact=False)


def _ports(view: View) -> dict[Plug, Port]:
    """Return the ports of GPU hosts, without excess ports, which have no cable."""
    extra = {
        Plug(name, port.device, port.port)
        for name, facts in gpu_hosts(view).items()
        if facts
        for port in beyond(view, facts)
    }
    return {plug: port for plug, port in ports_of(gpu_hosts(view)).items() if plug not in extra}


def _faults(compared: Comparison) -> Iterator[Judgement]:
    wrong = [p for p in compared.wanted if p in compared.found and not compared.is_right(p)]
    swaps = _swaps(compared, wrong)
    yield from (_swapped(compared, a, b) for a, b in swaps)
    exchanged = {plug for swap in swaps for plug in swap}
    together = _together(compared)
    for plug in wrong:
        if plug not in exchanged:
            yield _misplaced(compared, plug, together)
    yield from _missing(compared)
    if compared.exact:
        extra = [plug for plug in compared.found if plug not in compared.wanted]
        yield from (_unexpected(compared, plug) for plug in extra)


def _swaps(compared: Comparison, wrong: list[Plug]) -> list[tuple[Plug, Plug]]:
    """Return pairs of swapped cables."""
    waiting: dict[tuple[Socket, Socket], deque[Plug]] = {}
    pairs = []
    for plug in sorted(wrong):
        belongs, is_at = compared.key(compared.wanted[plug]), compared.key(compared.found[plug])
        others = waiting.get((is_at, belongs))
        if others:
            pairs.append((others.popleft(), plug))
        else:
            waiting.setdefault((belongs, is_at), deque()).append(plug)
    return pairs


def _swapped(compared: Comparison, a: Plug, b: Plug) -> Judgement:
    at_a, at_b = compared.found[a], compared.found[b]
    return failed(
        place(a.host, a.device),
        f"two cables are swapped: {a} is in {at_a}, {b} is in {at_b}",
        f"swap them at the switches: {a} goes to {_goes(compared, a, at_b)}, "
        f"{b} to {_goes(compared, b, at_a)}",
        value=str(at_a),
        limit=str(compared.wanted[a]),
        **compared.common,
    )


def _goes(compared: Comparison, plug: Plug, free: Socket) -> Socket:
    return compared.wanted[plug] if compared.exact else free


def _together(compared: Comparison) -> dict[tuple[str, str], list[Plug]]:
    """Group the adapters of one host that are on one switch."""
    ends: dict[tuple[str, str], list[Plug]] = {}
    for plug, socket in compared.found.items():
        ends.setdefault((plug.host, socket.switch), []).append(plug)
    return ends


def _misplaced(
    compared: Comparison, plug: Plug, together: Mapping[tuple[str, str], list[Plug]]
) -> Judgement:
    at, belongs = compared.found[plug], compared.wanted[plug]
    same = [str(p) for p in together[plug.host, at.switch] if p != plug and not compared.exact]
    doubled = f"; {at.switch} already has {', '.join(same)}" if same else ""
    return failed(
        place(plug.host, plug.device),
        f"{plug} is in {at}, but belongs in {belongs}{doubled}",
        f"move that cable from {at} to {'' if belongs.port else 'a free port of '}{belongs}",
        value=str(at),
        limit=str(belongs),
        **compared.common,
    )


def _missing(compared: Comparison) -> Iterator[Judgement]:
    """Report missing cables; those of an unknown switch in one result."""
    lost = [plug for plug in compared.wanted if plug not in compared.found]
    lost += [p for p in compared.ports if p not in compared.wanted and p not in compared.found]
    switches = {node.description for node in compared.topology.switches}
    gone: Counter[str] = Counter()
    for plug in lost:
        belongs = compared.wanted.get(plug)
        if belongs and belongs.switch in switches:
            yield _lost(compared, plug, belongs)
        elif belongs or not compared.exact:
            gone[belongs.switch if belongs else f"the leaf of {plug.device}"] += 1
    yield from (_no_switch(compared, name, count) for name, count in gone.items())


def _no_switch(compared: Comparison, name: str, cables: int) -> Judgement:
    return failed(
        "cluster",
        f"discovery does not find {name}, where {plural(cables, 'cable of the site belongs', 'cables of the site belong')}",
        f"check that {name} has power and that its links to the other switches are connected; "
        "ibnetdiscover on the control host lists the switches and their names",
        aspect=name,
        value=0,
        limit=cables,
        unit="cables",
        **compared.common,
    )


def _lost(compared: Comparison, plug: Plug, belongs: Socket) -> Judgement:
    """Report the place of a failed port's cable; the fault itself fails in another check."""
    target = place(plug.host, plug.device)
    rest = {"limit": str(belongs), **compared.common}
    facts = compared.view.facts.get(plug.host)
    if facts is None:
        cause = f"{plug.host} did not answer, and discovery does not find its {plug.device}"
        return not_assessed(target, cause, **rest)
    port = compared.ports.get(plug)
    others = ports_of_kind(compared.view, facts)
    if port is None and len(others) >= compared.view.profile_of(plug.host).hardware.fabric.ports:
        return failed(
            target,
            f"fabric.cables has a cable for {plug}, but the host has no such adapter",
            f"remove it from fabric.cables, or use one of {', '.join(p.device for p in others)}",
            **rest,
        )
    said = _state_of(port)
    cause = f"{plug} {said}; its cable belongs in {belongs}"
    return not_assessed(target, cause, required=False, **rest)


def _state_of(port: Port | None) -> str:
    if port is None:
        return "is missing (fabric.ports)"
    if "LINKUP" in port.physical.upper():
        return "is not found by discovery (fabric.topology)"
    return "has no link (fabric.state)"


def _unexpected(compared: Comparison, plug: Plug) -> Judgement:
    at = compared.found[plug]
    return failed(
        place(plug.host, plug.device),
        f"{plug} is in {at}, but fabric.cables lists no cable for it",
        f"add it to fabric.cables, or remove the cable from {at}",
        value=str(at),
        **compared.common,
    )


def _good(compared: Comparison) -> Judgement:
    hosts = len({plug.host for plug in compared.found})
    leaves = len({socket.switch for socket in compared.found.values()})
    if not compared.found:
        cause = "discovery shows no adapter that belongs to a known GPU host of this site"
        return not_assessed("cluster", cause, **compared.common)
    return passed(
        "cluster",
        len(compared.found),
        unit="cables",
        limit=len(compared.wanted),
        evidence=f"{plural(hosts, 'host')} on {plural(leaves, 'leaf', 'leaves')}",
        **compared.common,
    )


CHECKS: tuple[Check, ...] = (
    ClusterCheck(
        id=ids.CABLING,
        title="Cables are where they belong",
        judge=judge_cabling,
        explain="Each cable that discovery finds, compared with the site's cabling: rail-optimised (adapters of the same name share a leaf) or a "
        "list. A fabric with two exchanged cables works, but its collectives cross the spine and share links. No other check shows this.",
        limit="fabric.cabling of the site: its rule or its list",
        nature=Nature.SYMPTOM,
        causes=(
            SILENT,
            UNASKED,
            PORT_MISSING,
            OTHER_FABRIC,
            LINK_DOWN,
            Cause(ids.TOPOLOGY, "the port is connected to another fabric", Reach.PART),
        ),
    ),
)
