"""The proximity of hosts from one discovery, for Slurm and Kubernetes.

A block represents the switches that connect the hosts or blocks below it. Hosts of a rail-optimised fabric have one leaf
per rail; hosts with the same leaves are one block, independent of the number of switches.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from appliance.stages.fabric.cabling import Known, found_cables, natural
from appliance.stages.fabric.facts import Topology
from appliance.stages.fabric.rails import host_groups

TIERS = ("leaves", "spines", "cores")
FAMILY = "fabric.topograph.run/tier-"
LABEL = FAMILY + "{}"
"""Node label of a tier, 1 the nearest, as Topograph 1.0 (2026-08-18) names it: what reads its labels reads ours."""
UNPLACED = "unplaced"
WITHOUT = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True)
class Block:
    """``switches`` of the block; it connects either ``hosts`` (tier 1) or other blocks by name (above)."""

    name: str
    tier: int
    switches: tuple[str, ...]
    hosts: tuple[str, ...] = ()
    blocks: tuple[str, ...] = ()


@dataclass(frozen=True)
class SwitchTree:
    """Every GPU host is in exactly one block of tier 1; blocks are listed from the lowest tier."""

    blocks: tuple[Block, ...]

    def paths(self) -> dict[str, tuple[Block, ...]]:
        """The blocks each host is in, nearest first."""
        above = {child: block for block in self.blocks for child in block.blocks}
        found: dict[str, tuple[Block, ...]] = {}
        for block in self.blocks:
            if block.hosts:
                path, current = [block], above.get(block.name)
                while current:
                    path.append(current)
                    current = above.get(current.name)
                found |= dict.fromkeys(block.hosts, tuple(path))
        return found


def switch_tree(known: Known, topology: Topology, beside: tuple[str, ...] = ()) -> SwitchTree:
    """Return the tree of these hosts by majority: one missing or misplaced cable does not move a host.

    A host that discovery does not find, and that has several possible places, is in a block "unplaced", as are
    those in ``beside``, outside the fabric. Linear
    in the number of cables.
    """
    groups = host_groups(found_cables(known, topology), tuple(known))
    hosts: dict[frozenset[str], list[str]] = {}
    for host in known:
        hosts.setdefault(frozenset(groups[host].values()), []).append(host)
    lost = [*hosts.pop(frozenset(), []), *beside]
    if not hosts:
        return SwitchTree(())
    lowest = [_Part(leaves, tuple(names), ()) for leaves, names in hosts.items()]
    return _named([*_tiers(lowest, topology)], lost)


def slurm(tree: SwitchTree) -> list[dict[str, str]]:
    """Return the lines of topology.conf: one per switch, with its ``nodes`` or the ``switches`` below it."""
    return [
        {"name": b.name, "nodes": ",".join(b.hosts), "switches": ",".join(b.blocks)}
        for b in tree.blocks
    ]


def kubernetes(tree: SwitchTree) -> dict[str, dict[str, str]]:
    """Return labels by host, one per tier."""
    return {
        host: {LABEL.format(block.tier): block.name for block in path}
        for host, path in tree.paths().items()
    }


@dataclass(frozen=True)
class _Part:
    """A block without a name: its switches, and its hosts or the indices of the parts below."""

    switches: frozenset[str]
    hosts: tuple[str, ...]
    below: tuple[int, ...]


def _tiers(lowest: list[_Part], topology: Topology) -> Iterable[list[_Part]]:
    """Return the parts, tier by tier, until all are joined or no switch joins them."""
    neighbours = _neighbours(topology)
    ends = _with_adapters(topology)
    current, met = lowest, frozenset[str]().union(*(part.switches for part in lowest))
    yield current
    while len(current) > 1:
        joined = _joined(current, neighbours, met, ends if current is not lowest else frozenset())
        if len(joined) == len(current):
            return
        met = met.union(*(part.switches for part in joined))
        current = joined
        yield current


def _joined(
    parts: list[_Part],
    neighbours: Mapping[str, set[str]],
    met: frozenset[str],
    barred: frozenset[str],
) -> list[_Part]:
    """Return the parts of the next tier: parts that reach the same switch, or each other, are joined."""
    owner = {switch: i for i, part in enumerate(parts) for switch in part.switches}
    root = list(range(len(parts)))
    above: dict[str, int] = {}
    for i, part in enumerate(parts):
        for far in {f for switch in part.switches for f in neighbours.get(switch, ())} - barred:
            if far in owner:
                _unite(root, i, owner[far])
            elif far not in met:
                _unite(root, i, above.setdefault(far, i))
    members: dict[int, list[int]] = {}
    for i in range(len(parts)):
        members.setdefault(_find(root, i), []).append(i)
    switches: dict[int, set[str]] = {}
    for switch, i in above.items():
        switches.setdefault(_find(root, i), set()).add(switch)
    return [_Part(frozenset(switches.get(r, ())), (), tuple(m)) for r, m in members.items()]


def _find(root: list[int], i: int) -> int:
    while root[i] != i:
        root[i] = root[root[i]]
        i = root[i]
    return i


def _unite(root: list[int], a: int, b: int) -> None:
    first, second = sorted((_find(root, a), _find(root, b)))
    root[second] = first


def _neighbours(topology: Topology) -> dict[str, set[str]]:
    switches = {node.description for node in topology.switches}
    found: dict[str, set[str]] = {}
    for link in topology.links:
        if link.node in switches and link.peer in switches:
            found.setdefault(link.node, set()).add(link.peer)
            found.setdefault(link.peer, set()).add(link.node)
    return found


def _with_adapters(topology: Topology) -> frozenset[str]:
    hcas = {node.description for node in topology.hcas}
    return frozenset(
        end
        for link in topology.links
        for end, other in ((link.node, link.peer), (link.peer, link.node))
        if other in hcas
    )


def _named(tiers: list[list[_Part]], lost: list[str]) -> SwitchTree:
    blocks: list[Block] = []
    below: list[str] = []
    taken = {UNPLACED} if lost else set[str]()
    for tier, parts in enumerate(tiers, 1):
        names = _names(tier, parts, taken)
        taken |= set(names)
        for name, part in zip(names, parts, strict=True):
            switches = tuple(sorted(part.switches, key=natural))
            children = tuple(below[i] for i in part.below)
            blocks.append(Block(name, tier, switches, part.hosts, children))
        below = names
    return SwitchTree(tuple(_with_lost(blocks, below, lost)))


def _with_lost(blocks: list[Block], top: list[str], lost: list[str]) -> list[Block]:
    """Add hosts that were not found, at the maximum distance."""
    if not lost:
        return blocks
    highest = max(block.tier for block in blocks) + 1
    children = (*top, UNPLACED)
    return [
        Block(UNPLACED, 1, (), tuple(lost)),
        *blocks,
        Block("fabric", highest, (), (), children),
    ]


def _names(tier: int, parts: list[_Part], taken: set[str]) -> list[str]:
    """Return names: of the switch if the block has only one, else of the tier with a number."""
    kind = TIERS[tier - 1] if tier <= len(TIERS) else f"tier-{tier}"
    own = [
        WITHOUT.sub("-", next(iter(part.switches))).strip("-._")[:63]
        if len(part.switches) == 1
        else ""
        for part in parts
    ]
    counts = Counter(own)
    return [
        name if name and counts[name] == 1 and name not in taken else f"{kind}-{number}"
        for number, name in enumerate(own, 1)
    ]
