"""Maintenance: drains GPU hosts for planned work, and returns them. Drains of other operators stay unchanged."""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from appliance.actions.hosts.owners import HostOwner, look_at
from appliance.actions.sites.interrupts import interruptible
from appliance.actions.sites.opening import Target, open_session
from appliance.engine.host_names import named_hosts
from appliance.engine.look.gather import each
from appliance.engine.run.drain import GRACE, PAUSE, keep_out, resume
from appliance.engine.run.schedulers import SchedulerHost
from appliance.engine.session import Session
from appliance.engine.user import operator
from appliance.errors import ConfigError
from appliance.models.drain import BY_SLURM, GIVEN_AWAY, OWN, WHY, Maintenance
from appliance.models.events import Observer
from appliance.models.site import Host, Role, Site

BEGAN, ENDED = "maintenance", "maintenance_ended"
"""Kinds of journal entries."""
PATIENCE = 60.0
"""Seconds until a scheduler uses a host that was returned: slurmctld contacts it first."""


@dataclass(frozen=True)
class Kept:
    """A host in maintenance, and the work that is left on it."""

    host: str
    planned: Maintenance
    work: tuple[str, ...] = ()


@dataclass(frozen=True)
class Returned:
    """A host after its return. ``works``: its scheduler gives it work; ``said``: its state there."""

    host: str
    works: bool
    said: str


def drain_hosts(
    target: Target,
    words: Sequence[str],
    why: str,
    observer: Observer,
    minutes: float = 0.0,
    *,
    evict: bool = False,
    force: bool = False,
) -> tuple[Kept, ...]:
    """Drain these hosts until they are returned; ``words`` as users type names. Waits ``minutes`` for their work.

    ``evict``: then end what is left. ``force``: replace another person's drain.
    Raises ConfigError before any change if a host has no scheduler, or is drained by another person.
    """
    planned = maintenance_for(why)
    with open_session(target, "node", observer, changes=True) as session:
        seen = looked(session, gpu_hosts(session.site, words))
        require_own(seen, force=force)
        record_start(session, "node drain", [one.host for one in seen])
        return begin(session, seen, planned, minutes, evict=evict)


def return_hosts(
    target: Target, words: Sequence[str], observer: Observer, *, force: bool = False
) -> tuple[Returned, ...]:
    """End the maintenance of these hosts, and wait until their schedulers use them.

    ``force``: also end another person's drain, or one for another reason. Raises ConfigError before any change.
    """
    with open_session(target, "node", observer, changes=True) as session:
        seen = looked(session, gpu_hosts(session.site, words))
        if not force:
            _require_maintenance(seen)
            require_own(seen, force=False)
        record_start(session, "node return", [one.host for one in seen])
        return end(session, [one.host for one in seen])


def maintenance_for(why: str) -> Maintenance:
    """The record of maintenance that begins now. Raises ConfigError for a reason that a scheduler may not keep as it is."""
    text = " ".join(why.split())
    if not WHY.fullmatch(text):
        raise ConfigError(
            "--reason: not a reason that Slurm and Kubernetes keep unchanged",
            "use 1 to 120 letters, digits, spaces and . , : ; / # @ + & ( ) - _",
        )
    return Maintenance(text, operator(), datetime.now(UTC))


def gpu_hosts(site: Site, words: Sequence[str]) -> tuple[Host, ...]:
    """The named hosts. Raises ConfigError if one is unknown, or no scheduler gives it work."""
    names = named_hosts(words, [host.name for host in site.hosts])
    hosts = tuple(host for host in site.hosts if host.name in names)
    for host in hosts:
        if Role.GPU not in host.roles:
            raise ConfigError(
                f"{host.name} has no GPUs, so no scheduler gives it work and it cannot be drained",
                "name GPU hosts: appliance node show",
            )
    return hosts


def looked(session: Session, hosts: Iterable[Host]) -> tuple[HostOwner, ...]:
    """The hosts as their schedulers see them. Raises ApplianceError if that is unknown for one of them."""
    wanted = {host.name: host for host in hosts}
    found = tuple(seen for _, seen in each(wanted, lambda name: look_at(session, wanted[name])))
    for seen in found:
        if seen.error:
            raise seen.error
        if not seen.held:
            raise ConfigError(
                f"{seen.host}: no scheduler lists this host",
                f"it was never deployed: appliance deploy --hosts {seen.host}",
            )
    return found


def require_own(seen: Iterable[HostOwner], *, force: bool) -> None:
    """Raises ConfigError if another person keeps one of these hosts out of work."""
    for one in seen:
        others = list(filter(None, (_of_others(held) for held in one.held.values())))
        if others and not force:
            raise ConfigError(
                f"{one.host} is drained by another operator: {others[0]}",
                "ask them, or replace their drain with --force",
            )


def record_start(session: Session, verb: str, names: Iterable[str]) -> None:
    """Record what runs, for ``history``."""
    scope = ", ".join(names)
    session.journal.append(session.run, "run_started", verb=verb, scope=scope)


def begin(
    session: Session,
    seen: Sequence[HostOwner],
    planned: Maintenance,
    minutes: float,
    *,
    evict: bool,
    dead: bool = False,
) -> tuple[Kept, ...]:
    """Drain the hosts, and wait. Hosts stay drained, also if their work does not end in time.

    ``dead``: they do not answer, so that their work ends nowhere: it is asked to end, and not waited for.
    """
    names = [one.host for one in seen]
    for name in names:
        session.journal.append(session.run, BEGAN, host=name, why=planned.why, who=planned.who)
    with interruptible(session):
        left = keep_out(
            session,
            names,
            str(planned),
            minutes * 60,
            force=evict,
            over=_may_replace,
            grace=0.0 if dead else GRACE,
        )
    if session.cancelled.is_set():
        raise KeyboardInterrupt
    return tuple(Kept(name, planned, tuple(map(str, left.get(name, ())))) for name in names)


def end(session: Session, names: Sequence[str]) -> tuple[Returned, ...]:
    """Return the hosts to work, whatever keeps them out; but none that another scheduler owns."""
    resume(session, names, _may_replace)
    for name in names:
        session.journal.append(session.run, ENDED, host=name, who=operator())
    deadline = time.monotonic() + PATIENCE
    hosts = [session.site.host(name) for name in names]
    while True:
        now = [look_at(session, host) for host in hosts]
        done = tuple(map(_returned, now))
        over = time.monotonic() >= deadline or session.cancelled.wait(PAUSE)
        if over or all(one.works for one in done):
            return done


def _returned(seen: HostOwner) -> Returned:
    if seen.error:
        return Returned(seen.host, False, seen.error.message)
    held = seen.held.get(seen.declared)
    said = held.said if held else f"{seen.declared} does not list it"
    return Returned(seen.host, bool(held and held.gives), said)


def _require_maintenance(seen: Iterable[HostOwner]) -> None:
    for one in seen:
        if one.maintenance:
            continue
        reason = next((h.reason for o, h in one.held.items() if o is one.declared), "")
        state = f"drained: {reason}" if reason else "in service"
        raise ConfigError(
            f"{one.host} is not in maintenance, but {state}"
            if reason
            else f"{one.host} is {state}",
            "to see what ends that drain: appliance health; to end it now: --force"
            if reason
            else "show the hosts: appliance node show",
        )


def _of_others(held: SchedulerHost) -> str:
    """Why another person keeps the host out of work; "" if nobody does."""
    planned = Maintenance.read(held.reason)
    if planned:
        return planned.text if planned.who != operator() else ""
    if held.gives or held.reason.startswith(OWN):
        return ""
    is_slurms = not held.reason or held.reason.startswith(BY_SLURM)
    return "" if is_slurms else held.reason


def _may_replace(reason: str) -> bool:
    return not reason.startswith(GIVEN_AWAY)
