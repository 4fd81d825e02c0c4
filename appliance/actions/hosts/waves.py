"""Work on hosts in waves: each is drained, worked on, judged and returned; the first failure stops the rest."""

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from appliance.actions.hosts import maintenance
from appliance.actions.hosts.other_hosts import against, failures_of
from appliance.actions.hosts.owners import HostOwner
from appliance.actions.sites.opening import Target, open_session
from appliance.engine.look.gather import each
from appliance.engine.session import Session
from appliance.errors import ApplianceError, DeadlineExceeded
from appliance.models.events import Observer
from appliance.models.result import CheckResult
from appliance.models.site import Host, Role, Site

LATER = (Role.LOGIN, Role.STORAGE, Role.CONTROL)
"""Hosts with these roles follow the others, one by one, in this order."""
BEFORE = "before_work"
"""Kind of journal entries: the checks that failed on a host before work on it."""


@dataclass(frozen=True)
class Worked:
    """A host after the work. ``failures``: checks that failed since; ``error``: why it is not back."""

    host: str
    failures: tuple[CheckResult, ...] = ()
    error: ApplianceError | None = None

    @property
    def is_good(self) -> bool:
        """Whether it is back as before."""
        return not self.failures and self.error is None


@dataclass(frozen=True)
class Work:
    """What is done to each host. ``verb`` and ``why``: for the history and the schedulers; ``done``: its past participle.

    ``continues``: reasons of drains that an earlier, failed run of this work left behind.
    """

    verb: str
    why: str
    done: str
    act: Callable[[Session, str], ApplianceError | None]
    continues: frozenset[str] = frozenset()


def waves(
    site: Site, names: Sequence[str], at_once: int, first: str = ""
) -> tuple[tuple[Host, ...], ...]:
    """The order of the hosts: ``first`` alone, hosts without further roles ``at_once``, then the others one by one."""
    chosen = [host for host in site.hosts if host.name in names]
    canary = tuple(host for host in chosen if host.name == first)
    plain = [host for host in chosen if not _rank(host) and host not in canary]
    rest = sorted((host for host in chosen if _rank(host) and host not in canary), key=_rank)
    together = [tuple(plain[i : i + at_once]) for i in range(0, len(plain), at_once)]
    return (*filter(None, [canary]), *together, *((host,) for host in rest))


def _rank(host: Host) -> int:
    return max((LATER.index(role) + 1 for role in host.roles if role in LATER), default=0)


def require_possible(session: Session, plan: Sequence[Sequence[Host]], *, force: bool) -> None:
    """Raise ConfigError or ConnectionFailed if a host is drained by another operator, or does not answer."""
    every = [host for wave in plan for host in wave]
    gpu = [host for host in every if Role.GPU in host.roles]
    maintenance.require_own(maintenance.looked(session, gpu), force=force)
    for host in every:
        session.remote.reach(host.name)


def in_waves(
    target: Target,
    observer: Observer,
    plan: Sequence[Sequence[Host]],
    work: Work,
    minutes: float,
    *,
    evict: bool = False,
) -> tuple[tuple[Worked, ...], tuple[str, ...]]:
    """Work on the hosts wave by wave: what became of each, and the hosts that were not reached."""
    done: list[Worked] = []
    for wave in plan:
        done += _wave(target, observer, wave, work, minutes, evict=evict)
        if not all(one.is_good for one in done):
            break
    met = {one.host for one in done}
    return tuple(done), tuple(h.name for wave in plan for h in wave if h.name not in met)


def _wave(
    target: Target,
    observer: Observer,
    wave: Sequence[Host],
    work: Work,
    minutes: float,
    *,
    evict: bool,
) -> list[Worked]:
    names = {host.name: host for host in wave}
    gpu = [host for host in wave if Role.GPU in host.roles]
    with open_session(target, work.verb.split()[0], observer, changes=True) as session:
        maintenance.record_start(session, work.verb, names)
        seen = maintenance.looked(session, gpu)
        continued = {s.host for s in seen if s.maintenance and s.maintenance.why in work.continues}
        known = {name: _known(session, name, continued) for name in names}
        # What an operator drained for planned work stays drained.
        mine = [s for s in seen if not s.maintenance or s.host in continued]
        if busy := _drain(session, mine, work, minutes, evict=evict):
            session.notices.fail()
            return busy
        errors = dict(each(names, lambda name: work.act(session, name)))
        if any(errors.values()):
            session.notices.fail()
    result = [
        Worked(name, error=error)
        if (error := errors[name])
        else Worked(name, failures_of(target, observer, name, known[name]))
        for name in names
    ]
    drained = {one.host for one in mine}
    back = [one.host for one in result if one.is_good and one.host in drained]
    if not back:
        return result
    with open_session(target, "node", observer, changes=True) as session:
        idle = {one.host: one.said for one in maintenance.end(session, back) if not one.works}
    return [_with_state(one, idle) for one in result]


def _known(session: Session, name: str, continued: Container[str]) -> frozenset[str]:
    """Checks that failed before the work; before an earlier run, if this one continues it."""
    before = session.journal.last(BEFORE, host=name) if name in continued else None
    if before:
        return frozenset(map(str, cast(list[object], before.data["failures"])))
    failures = sorted(r.name for r in against(session, name))
    session.journal.append(session.run, BEFORE, host=name, failures=failures)
    return frozenset(failures)


def _with_state(one: Worked, idle: Mapping[str, str]) -> Worked:
    if one.host not in idle:
        return one
    fix = f"appliance health --hosts {one.host}"
    return Worked(one.host, error=ApplianceError(f"gets no work: {idle[one.host]}", fix))


def _drain(
    session: Session, seen: Sequence[HostOwner], work: Work, minutes: float, *, evict: bool
) -> list[Worked]:
    """Drain the hosts of a wave; if one is not free in time, all return to service, and why is returned."""
    if not seen:
        return []
    planned = maintenance.maintenance_for(work.why)
    kept = maintenance.begin(session, seen, planned, minutes, evict=evict)
    busy = {one.host: one.work for one in kept if one.work}
    if not busy:
        return []
    maintenance.end(session, [one.host for one in seen])
    fix = "wait longer with --wait, or end the work with --evict"
    return [
        Worked(
            host, error=DeadlineExceeded(f"is not free, so it was not {work.done}: {left[0]}", fix)
        )
        for host, left in busy.items()
    ]
