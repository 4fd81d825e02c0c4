"""Takes this host out of Slurm, but never more hosts than the site allows: a judge that errs must not empty a cluster.

Slurm is the one place of truth, and has no lock to hold. So a host first announces itself, with a mark at its node that
changes nothing else. Then it asks again, and drains only if it and all others that are out or announced are within the
bound. Of several that announce at the same moment the last one sees all of them: no order of events lets one too many
through. Where too many have announced, the first by name stay and the others take it back.
"""

from __future__ import annotations

import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from appliance.watch.scontrol import Node, Slurm

TRIES = 6
PAUSE_S = 0.7


def take_out(
    slurm: Slurm, cause: str, most: int, pause: Callable[[float], None] = time.sleep
) -> Node:
    """Drain this host for ``cause`` where no more than ``most`` hosts are out then; its node afterwards.

    A node that is out for whatever reason is left as it is: a person's drain keeps its reason. Raises Silent; the host may
    be announced then.
    """
    known = slurm.nodes()
    if not known[slurm.name].is_out and len(_counted(known) - {slurm.name}) < most:
        if not known[slurm.name].is_announced:
            slurm.announce(known[slurm.name])
        known = _settle(slurm, cause, most, pause)
    slurm.withdraw(known[slurm.name])
    return known[slurm.name]


def _settle(
    slurm: Slurm, cause: str, most: int, pause: Callable[[float], None]
) -> Mapping[str, Node]:
    """Drains an announced host once there is room for all; the nodes as they are when it has, or has given up."""
    for _ in range(TRIES):
        known = slurm.nodes()
        if known[slurm.name].is_out:
            return known
        if len(_counted(known) | {slurm.name}) <= most:
            slurm.drain(cause)
            return slurm.nodes()
        if not _may_wait(slurm.name, known, most):
            return known
        pause(PAUSE_S)
    return slurm.nodes()


def _counted(known: Mapping[str, Node]) -> set[str]:
    return {name for name, node in known.items() if node.is_ours or node.is_announced}


def _may_wait(name: str, known: Mapping[str, Node], most: int) -> bool:
    """Whether this host is among the first by name that have announced, as far as there is room."""
    out = sum(1 for node in known.values() if node.is_ours)
    waiting = sorted(n for n, node in known.items() if node.is_announced and not node.is_ours)
    return name in waiting[: max(0, most - out)]
