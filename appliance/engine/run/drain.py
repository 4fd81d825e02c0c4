"""Drains hosts for the time of a change and returns them to their schedulers. No work is ended without consent."""

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from appliance.adapters.kubernetes_nodes import KUBECTL, ApiNodes, KubectlNodes, Nodes
from appliance.engine.run.kubernetes_hosts import KubernetesHosts
from appliance.engine.run.schedulers import Ours, Scheduler, Workload
from appliance.engine.run.slurm_hosts import SlurmHosts
from appliance.engine.session import Session
from appliance.errors import ApplianceError, DeadlineExceeded
from appliance.models.drain import Why
from appliance.models.events import Message
from appliance.models.site import Role

PAUSE = 2.0
GRACE = 180.0
"""Seconds to wait for work after the request to end; a pod has 30 by default, a job 30 (KillWait)."""


@dataclass(frozen=True)
class Drain:
    """The reason of a drain, and how long to wait. ``force``: consent to end what is left after ``seconds``.

    ``remedy``: what the user can do about work that does not end.
    """

    why: Why
    seconds: float
    force: bool = False
    remedy: str = ""


def schedulers(session: Session) -> tuple[Scheduler, ...]:
    """Return all schedulers of this site's hosts. Raises ApplianceError if none answers."""
    control = session.site.with_role(Role.CONTROL)
    if not control:
        raise ApplianceError(
            "no host has the role control, and draining needs one",
            "drain the hosts yourself, then run again without the drain option",
        )
    found: tuple[Scheduler, ...] = (SlurmHosts(session),) if session.site.slurm else ()
    if given := session.site.kubernetes:
        nodes: Nodes = (
            ApiNodes(session.folder / given.external)
            if given.external
            else KubectlNodes(session.remote, _desk(session, [h.name for h in control]))
        )
        found += (KubernetesHosts(session, nodes),)
    return found


def _desk(session: Session, control: Sequence[str]) -> str:
    """Return the first control host whose API is ready; else the last one, whose failure is reported."""
    *others, last = control
    for host in others:
        with suppress(ApplianceError):
            done = session.remote.run(host, [*KUBECTL, "get", "--raw", "/readyz"], timeout=30)
            if not done.returncode:
                return host
    return last


def drain(session: Session, hosts: Sequence[str], wanted: Drain) -> None:
    """Stop new work on these hosts, and wait until running work has ended or moved away.

    Raises DeadlineExceeded, naming the remaining work, after returning the hosts; ApplianceError if no scheduler
    answers.
    """
    asked = schedulers(session)
    try:
        for host in hosts:
            for scheduler in asked:
                scheduler.take_out(host, wanted.why)
        left = _wait(session, asked, hosts, wanted.seconds, False, GRACE)
        if left and wanted.force and not session.cancelled.is_set():
            left = _wait(session, asked, hosts, GRACE, True, GRACE)
    except BaseException:
        with suppress(ApplianceError):
            resume(session, hosts)
        raise
    if left:
        resume(session, hosts)
        raise _not_free(session, left, wanted)


def keep_out(
    session: Session,
    hosts: Sequence[str],
    why: str,
    seconds: float,
    *,
    force: bool,
    over: Ours,
    grace: float | None = None,
) -> dict[str, list[Workload]]:
    """Drain these hosts until an operator returns them, and wait; return by host the work that is left after ``seconds``.

    ``force``: consent to end that work, which then has ``grace`` seconds (default: GRACE). ``over``: the drains whose reason ``why`` may replace.
    Raises ApplianceError if no scheduler answers.
    """
    asked, grace = schedulers(session), GRACE if grace is None else grace
    for host in hosts:
        for scheduler in asked:
            scheduler.take_out(host, why, over)
    left = _wait(session, asked, hosts, seconds, False, grace)
    if left and force and not session.cancelled.is_set():
        left = _wait(session, asked, hosts, grace, True, grace)
    return left


def resume(session: Session, hosts: Sequence[str], ours: Ours | None = None) -> None:
    """Return those hosts to work whose drains are ``ours``; default: of a change by this program."""
    failures: list[ApplianceError] = []
    for scheduler in schedulers(session):
        for host in hosts:
            try:
                scheduler.give_back(host, ours)
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
    grace: float,
) -> dict[str, list[Workload]]:
    """Return what is left on each host when the time is over, and report every change of it."""
    deadline = time.monotonic() + seconds
    told: dict[str, list[Workload]] = {}
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
        if over >= (grace if ending else 0) or session.cancelled.wait(PAUSE):
            return left


def _named(work: Sequence[Workload]) -> str:
    return ", ".join(map(str, work))


def _not_free(session: Session, left: dict[str, list[Workload]], wanted: Drain) -> DeadlineExceeded:
    after = f" after {wanted.seconds / 60:g} min" + (
        " and the request to stop" if wanted.force else ""
    )
    if session.cancelled.is_set():
        after = " at the interrupt"
    named = "; ".join(f"{host} is not free{after}: {_named(left[host])}" for host in left)
    return DeadlineExceeded(named, f"{wanted.remedy}; its jobs keep running")
