"""Takes this host out of Slurm, but never more hosts than the site allows: a judge that errs must not empty a cluster.

Slurm is the one place of truth, and has no lock to hold. So a host first announces itself, with a mark at its node that
changes nothing else. Then it asks again, and drains only if it and all others that are out or announced are within the
bound. Of several that announce at the same moment the last one sees all of them: no order of events lets one too many
through. Where too many have announced, the first by name stay and the others take it back.

Root on any host can write such a mark at any node, and never drain it: marks.py says which of them count.
"""

from __future__ import annotations

import time

from appliance.watch.marks import Marks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from appliance.watch.scontrol import Node, Slurm

TRIES = 6
PAUSE_S = 0.7


def take_out(
    slurm: Slurm,
    cause: str,
    most: int,
    pause: Callable[[float], None] = time.sleep,
    marks: Marks | None = None,
) -> Node:
    """Drain this host for ``cause`` where no more than ``most`` hosts are out then; its node afterwards.

    A node that is out for whatever reason is left as it is: a person's drain keeps its reason. Raises Silent; the host may
    be announced then.
    """
    marks, known = marks or Marks(), slurm.nodes()
    if not known[slurm.name].is_out:
        out = _out(slurm, known)
        marks.judge(out, most)
        if len(out | _waiting(slurm, known, marks)) < most:
            # Also where there is a mark already: the others go by its time.
            slurm.announce(known[slurm.name])
            known = _settle(slurm, cause, most, pause, marks)
        if not known[slurm.name].is_out:
            marks.give_way(_waiting(slurm, known, marks), most - len(_out(slurm, known)))
    slurm.withdraw(known[slurm.name])
    return known[slurm.name]


def _settle(
    slurm: Slurm, cause: str, most: int, pause: Callable[[float], None], marks: Marks
) -> Mapping[str, Node]:
    """Drains an announced host once there is room for all; the nodes as they are when it has, or has given up."""
    for _ in range(TRIES):
        known = slurm.nodes()
        if known[slurm.name].is_out:
            return known
        out, waiting = _out(slurm, known), _waiting(slurm, known, marks)
        if len(out | waiting) < most:
            slurm.drain(cause)
            return slurm.nodes()
        # The first by name that have announced stay, as far as there is room.
        if slurm.name not in sorted(waiting | {slurm.name})[: max(0, most - len(out))]:
            return known
        pause(PAUSE_S)
    return slurm.nodes()


def _out(slurm: Slurm, known: Mapping[str, Node]) -> set[str]:
    """Other hosts that this program has taken out."""
    return {name for name, node in known.items() if name != slurm.name and node.is_ours}


def _waiting(slurm: Slurm, known: Mapping[str, Node], marks: Marks) -> set[str]:
    """Other hosts that are about to be taken out."""
    others = ((name, node) for name, node in known.items() if name != slurm.name)
    return {name for name, node in others if marks.count(name, node)}
