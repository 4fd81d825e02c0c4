"""Takes hosts from whoever gives them work for the time of a change, and gives them back: nobody's work is cut off unasked."""

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from appliance.adapters.kubernetes_nodes import KUBECTL, ApiNodes, KubectlNodes, Nodes
from appliance.engine.session import Session
from appliance.engine.work import Scheduler, Work
from appliance.engine.work_kubernetes import KubernetesHosts
from appliance.engine.work_slurm import SlurmHosts
from appliance.errors import ApplianceError, DeadlineExceeded
from appliance.models.drain import Why
from appliance.models.events import Message
from appliance.models.site import Role

PAUSE = 2.0
GRACE = 180.0
"""Seconds that work which was told to end is waited for; a pod has 30 by default, a job 30 (KillWait)."""


@dataclass(frozen=True)
class Drain:
    """What hosts are drained for, and with how much patience. ``force``: consent to end what is left after ``seconds``.

    ``remedy``: what the user may do who met work that does not end.
    """

    why: Why
    seconds: float
    force: bool = False
    remedy: str = ""


def schedulers(session: Session) -> tuple[Scheduler, ...]:
    """All that may give hosts of this site work. Raises ApplianceError where none can be asked."""
    control = session.site.with_role(Role.CONTROL)
    if not control:
        raise ApplianceError(
            "no host has the role control, and draining needs one",
            "drain the hosts yourself, then leave the drain out",
        )
    found: tuple[Scheduler, ...] = (SlurmHosts(session),)
    if given := session.site.kubernetes:
        nodes: Nodes = (
            ApiNodes(session.folder / given.external)
            if given.external
            else KubectlNodes(session.remote, _desk(session, [h.name for h in control]))
        )
        found += (KubernetesHosts(session, nodes),)
    return found


def _desk(session: Session, control: Sequence[str]) -> str:
    """The first control host whose API is ready; the last where none is, whose failure then tells."""
    *others, last = control
    for host in others:
        with suppress(ApplianceError):
            done = session.remote.run(host, [*KUBECTL, "get", "--raw", "/readyz"], timeout=30)
            if not done.returncode:
                return host
    return last


def drain(session: Session, hosts: Sequence[str], wanted: Drain) -> None:
    """No new work on these hosts, and waits until what is there has ended or moved away.

    Raises DeadlineExceeded, naming what stands in the way, after giving the hosts back; ApplianceError where nobody tells.
    """
    asked = schedulers(session)
    try:
        for host in hosts:
            for scheduler in asked:
                scheduler.take_out(host, wanted.why)
        left = _wait(session, asked, hosts, wanted.seconds, False)
        if left and wanted.force and not session.cancelled.is_set():
            left = _wait(session, asked, hosts, GRACE, True)
    except BaseException:
        with suppress(ApplianceError):
            resume(session, hosts)
        raise
    if left:
        resume(session, hosts)
        raise _not_free(session, left, wanted)


def resume(session: Session, hosts: Sequence[str]) -> None:
    """Those of the hosts that are still drained for a reason of ours take work again."""
    failures: list[ApplianceError] = []
    for scheduler in schedulers(session):
        for host in hosts:
            try:
                scheduler.give_back(host)
            except ApplianceError as error:
                failures.append(error)
    if failures:
        raise failures[0]


def _wait(
    session: Session,
    asked: Sequence[Scheduler],
    hosts: Sequence[str],
    seconds: float,
    force: bool,
) -> dict[str, list[Work]]:
    """What is left on each host that is not free when the time is over; says so whenever it becomes another."""
    deadline = time.monotonic() + seconds
    told: dict[str, list[Work]] = {}
    while True:
        found = {h: [w for s in asked for w in s.clear(h, force)] for h in hosts}
        left = {host: work for host, work in found.items() if work}
        if not left:
            return {}
        for host, work in left.items():
            if told.get(host) != work:
                session.tell(Message(text=f"waits for {_named(work)}", host=host))
        told = left
        over = time.monotonic() - deadline
        ending = all(w.is_ending for work in left.values() for w in work)
        if over >= (GRACE if ending else 0) or session.cancelled.wait(PAUSE):
            return left


def _named(work: Sequence[Work]) -> str:
    return ", ".join(map(str, work))


def _not_free(session: Session, left: dict[str, list[Work]], wanted: Drain) -> DeadlineExceeded:
    after = f" after {wanted.seconds / 60:g} min" + (
        " and the order to end" if wanted.force else ""
    )
    if session.cancelled.is_set():
        after = " at the interrupt"
    named = "; ".join(f"{host} is not free{after}: {_named(left[host])}" for host in left)
    return DeadlineExceeded(named, f"{wanted.remedy}; work goes on there")
