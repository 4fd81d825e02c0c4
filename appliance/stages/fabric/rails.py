"""Rail-optimised cabling as a rule: in each group of hosts, adapters with the same name share a leaf."""

from collections import Counter
from itertools import pairwise

from appliance.stages.fabric.cabling import Cables, Plug, Socket, natural

Rail = tuple[str, int]
"""An adapter's name and port, the same on every host."""
Leaves = dict[Rail, str]


def wanted_by_rule(found: Cables, hosts: tuple[str, ...]) -> dict[Plug, Socket]:
    """Return the right leaf of each adapter of ``hosts``: that of most adapters with this name in its group.

    Hosts that share leaves are a group. Of two equally common opinions the one counts whose leaves are numbered
    like its adapters. Linear in the number of cables.
    """
    return {
        Plug(host, device, port): Socket(leaf)
        for host, group in host_groups(found, hosts).items()
        for (device, port), leaf in group.items()
    }


def host_groups(found: Cables, hosts: tuple[str, ...]) -> dict[str, Leaves]:
    """Return the leaves of each host's group; none for an undiscovered host that may be in several."""
    own: dict[str, Leaves] = {host: {} for host in hosts}
    for plug, socket in found.items():
        own.setdefault(plug.host, {})[plug.device, plug.port] = socket.switch
    groups = _groups(own)
    group_of = {leaf: i for i, group in enumerate(groups) for leaf in group.values()}
    return {host: _own_group(leaves, groups, group_of) for host, leaves in own.items()}


def _groups(own: dict[str, Leaves]) -> list[Leaves]:
    """Return groups: the most frequent assignment starts a group, others only add rails."""
    opinions = Counter(tuple(sorted(leaves.items())) for leaves in own.values() if leaves)
    groups: list[Leaves] = []
    group_of: dict[str, int] = {}
    for opinion in sorted(opinions, key=lambda o: (-opinions[o], *_oddness(dict(o)))):
        leaves = dict(opinion)
        votes = Counter(group_of[leaf] for leaf in leaves.values() if leaf in group_of)
        index = votes.most_common(1)[0][0] if votes else len(groups)
        if not votes:
            groups.append({})
        new = {r: s for r, s in leaves.items() if r not in groups[index] and s not in group_of}
        groups[index] |= new
        group_of |= dict.fromkeys(new.values(), index)
    return groups


def _own_group(leaves: Leaves, groups: list[Leaves], group_of: dict[str, int]) -> Leaves:
    votes = Counter(group_of[leaf] for leaf in leaves.values() if leaf in group_of)
    if votes:
        return groups[votes.most_common(1)[0][0]]
    return groups[0] if len(groups) == 1 else {}


def _oddness(leaves: Leaves) -> tuple[int, int]:
    """Return a sort key: assignments with fewer leaves, or leaves out of order, come last."""
    order = [natural(leaves[rail]) for rail in sorted(leaves, key=lambda r: (natural(r[0]), r[1]))]
    return -len(set(leaves.values())), sum(a > b for a, b in pairwise(order))
