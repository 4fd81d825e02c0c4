"""Compares the cables between switches with the site, or with each other."""

from collections import Counter
from collections.abc import Iterator

from appliance.checks.check import View, failed
from appliance.models.result import Judgement
from appliance.stages.fabric.cabling import number
from appliance.stages.fabric.checks.subnet import is_simulated
from appliance.stages.fabric.facts import Topology

Pair = tuple[str, str]


def judge_trunks(view: View, topology: Topology) -> Iterator[Judgement]:
    """Report missing cables: by pair of switches if the site lists them, else by leaf."""
    found = trunks(topology)
    if view.site.fabric.trunks:
        names = {number(s.guid): s.description for s in topology.switches}
        for trunk in view.site.fabric.trunks:
            ends = [names.get(number(name), name) for name in (trunk.switch, trunk.peer)]
            pair = _pair(*ends)
            if found[pair] < trunk.cables:
                source = "site.fabric.trunks"
                yield _missing_cables(view, pair, found[pair], trunk.cables, source)
        return
    yield from _outliers(view, topology, found)


def trunks(topology: Topology) -> Counter[Pair]:
    """Return the number of cables between each two switches."""
    switches = {node.description for node in topology.switches}
    links = ((link.node, link.peer) for link in topology.links)
    return Counter(_pair(a, b) for a, b in links if a in switches and b in switches)


def _outliers(view: View, topology: Topology, found: Counter[Pair]) -> Iterator[Judgement]:
    """Return leaves with fewer cables to an upper switch than most other leaves."""
    hcas = {node.description for node in topology.hcas}
    ends = {(link.node, link.peer) for link in topology.links}
    leaves = {b for a, b in ends if a in hcas} | {a for a, b in ends if b in hcas}
    up: dict[str, dict[str, int]] = {}
    for (a, b), cables in found.items():
        for leaf, above in ((a, b), (b, a)):
            if leaf in leaves and above not in leaves:
                up.setdefault(leaf, {})[above] = cables
    totals = Counter(sum(up.get(leaf, {}).values()) for leaf in leaves)
    if not totals:
        return
    usual = max(totals, key=lambda total: (totals[total], total))
    spines = _usual(up)
    for leaf in sorted(leaves):
        own = up.get(leaf, {})
        if sum(own.values()) < usual:
            short = {s: n for s, n in spines.items() if own.get(s, 0) < n}
            above = next(iter(sorted(short)), "the switches above")
            limit = short.get(above, usual)
            yield _missing_cables(
                view, (leaf, above), own.get(above, 0), limit, "equal to other leaves"
            )


def _usual(up: dict[str, dict[str, int]]) -> dict[str, int]:
    """Return by upper switch the number of cables that most leaves have."""
    counts: dict[str, Counter[int]] = {}
    for own in up.values():
        for above, cables in own.items():
            counts.setdefault(above, Counter())[cables] += 1
    return {above: max(c, key=lambda n: (c[n], n)) for above, c in counts.items()}


def _missing_cables(view: View, pair: Pair, found: int, limit: int, source: str) -> Judgement:
    a, b = pair
    return failed(
        "cluster",
        f"{found} of {limit} cables between {a} and {b} are up",
        f"check the ports of {a} towards {b}: iblinkinfo -l on the control host; reseat or replace the cable",
        aspect=f"{a} to {b}",
        value=found,
        limit=limit,
        unit="cables",
        limit_source=source,
        simulated=is_simulated(view),
    )


def _pair(a: str, b: str) -> Pair:
    return (a, b) if a <= b else (b, a)
