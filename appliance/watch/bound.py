"""Drains this host, but never more hosts than the site allows: a faulty judge must not empty a cluster.

The scheduler holds the only shared state and has no lock. So a host first announces itself with a mark at its node that
changes nothing else. Then it reads all nodes again, and drains only if it and all others that are out or
announced are within the bound. If several announce themselves at the same moment, the last one sees all of
them, so no order of events exceeds the bound. If too many have announced themselves, the first by name stay and
the others withdraw.
In Slurm, root on any host can write such a mark at any node without draining it: marks.py decides which marks count.
"""

from __future__ import annotations

import time

from appliance.watch.marks import Marks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from appliance.watch.node import Door, Node

TRIES = 6
PAUSE_S = 0.7


def take_out(
    door: Door,
    cause: str,
    most: int,
    pause: Callable[[float], None] = time.sleep,
    marks: Marks | None = None,
) -> Node:
    """Drain this host for ``cause`` if at most ``most`` hosts are out then; return its node afterwards.

    A node that is already out stays as it is, and an operator's drain keeps its reason. Raises Silent; the host
    may be announced then.
    """
    marks, known = marks or Marks(), door.nodes()
    if not known[door.name].is_out:
        out = _out(door, known)
        marks.judge(out, most)
        if len(out | _waiting(door, known, marks)) < most:
            # Also if there is a mark already: the others use its time.
            door.announce(known[door.name])
            known = _settle(door, cause, most, pause, marks)
        if not known[door.name].is_out:
            marks.give_way(_waiting(door, known, marks), most - len(_out(door, known)))
    door.withdraw(known[door.name])
    return known[door.name]


def _settle(
    door: Door, cause: str, most: int, pause: Callable[[float], None], marks: Marks
) -> Mapping[str, Node]:
    """Drain an announced host once there is room for all; return the nodes afterwards."""
    for _ in range(TRIES):
        known = door.nodes()
        if known[door.name].is_out:
            return known
        out, waiting = _out(door, known), _waiting(door, known, marks)
        if len(out | waiting) < most:
            door.drain(cause)
            return door.nodes()
        # The first announced hosts by name stay, as far as there is room.
        if door.name not in sorted(waiting | {door.name})[: max(0, most - len(out))]:
            return known
        pause(PAUSE_S)
    return door.nodes()


def _out(door: Door, known: Mapping[str, Node]) -> set[str]:
    """Return other hosts that this program has drained."""
    return {name for name, node in known.items() if name != door.name and node.is_ours}


def _waiting(door: Door, known: Mapping[str, Node], marks: Marks) -> set[str]:
    """Return other hosts that are about to be drained."""
    others = ((name, node) for name, node in known.items() if name != door.name)
    return {name for name, node in others if marks.count(name, node)}
