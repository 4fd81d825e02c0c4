"""Reboot: hosts are drained, rebooted, judged and returned in waves; the first failure stops the rest."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from appliance.actions.hosts import maintenance
from appliance.actions.hosts.other_hosts import against, failures_of
from appliance.actions.hosts.owners import HostOwner
from appliance.actions.sites.opening import Target, open_session
from appliance.engine.host_names import named_hosts
from appliance.engine.look.gather import each
from appliance.engine.session import Session
from appliance.errors import ApplianceError, ConfigError, DeadlineExceeded
from appliance.models.events import Message, Observer
from appliance.models.result import CheckResult
from appliance.models.site import Host, Role, Site

WHY = "reboot"
LATER = (Role.LOGIN, Role.STORAGE, Role.CONTROL)
"""Hosts with these roles follow the others, one by one, in this order."""
PATIENCE, PAUSE = 900.0, 3.0
"""Seconds until a machine has booted again, as large memory takes minutes to test; and between two looks."""
BOOT = (
    "cat /proc/sys/kernel/random/boot_id; systemctl show --property=UserspaceTimestampMonotonic;"
    " systemctl show --property=SystemState"
)
"""A machine's boot has its own id; a container's is that of its machine, but its systemd starts at another time."""


@dataclass(frozen=True)
class Rebooted:
    """A host after its reboot. ``failures``: checks that failed since; ``error``: why it is not back."""

    host: str
    failures: tuple[CheckResult, ...] = ()
    error: ApplianceError | None = None

    @property
    def is_good(self) -> bool:
        """Whether it is back as before."""
        return not self.failures and self.error is None


def waves(site: Site, names: Sequence[str], at_once: int) -> tuple[tuple[Host, ...], ...]:
    """The hosts in the order of their reboots: hosts without further roles ``at_once``, then the others one by one."""
    chosen = [host for host in site.hosts if host.name in names]
    first = [host for host in chosen if not _rank(host)]
    rest = sorted((host for host in chosen if _rank(host)), key=_rank)
    together = [tuple(first[i : i + at_once]) for i in range(0, len(first), at_once)]
    return (*together, *((host,) for host in rest))


def _rank(host: Host) -> int:
    return max((LATER.index(role) + 1 for role in host.roles if role in LATER), default=0)


def reboot_hosts(
    target: Target,
    words: Sequence[str],
    observer: Observer,
    consent: Callable[[tuple[tuple[Host, ...], ...]], bool],
    minutes: float,
    *,
    everything: bool = False,
    at_once: int = 1,
    evict: bool = False,
    force: bool = False,
) -> tuple[tuple[Rebooted, ...], tuple[str, ...]] | None:
    """Reboot hosts in waves: what became of each, and the hosts that were not reached; None if declined.

    Raises ConfigError before any change for an unknown host, or one that another operator drained.
    """
    with open_session(target, "node", observer) as session:
        every = [host.name for host in session.site.hosts]
        names = tuple(every) if everything else named_hosts(words, every)
        plan = waves(session.site, names, at_once)
        gpu = [host for wave in plan for host in wave if Role.GPU in host.roles]
        maintenance.require_own(maintenance.looked(session, gpu), force=force)
        for host in (host for wave in plan for host in wave):
            session.remote.reach(host.name)
    if not consent(plan):
        return None
    done: list[Rebooted] = []
    for wave in plan:
        done += _wave(target, observer, wave, minutes, evict=evict)
        if not all(one.is_good for one in done):
            break
    met = {one.host for one in done}
    return tuple(done), tuple(h.name for wave in plan for h in wave if h.name not in met)


def _wave(
    target: Target, observer: Observer, wave: Sequence[Host], minutes: float, *, evict: bool
) -> list[Rebooted]:
    names = {host.name: host for host in wave}
    gpu = [host for host in wave if Role.GPU in host.roles]
    with open_session(target, "node", observer, changes=True) as session:
        maintenance.record_start(session, "node reboot", names)
        known = {name: frozenset(r.name for r in against(session, name)) for name in names}
        seen = maintenance.looked(session, gpu)
        # What an operator drained for planned work stays drained.
        mine = [one for one in seen if one.maintenance is None]
        if busy := _drain(session, mine, minutes, evict=evict):
            return busy
        errors = dict(each(names, lambda name: _reboot(session, name)))
    result = [
        Rebooted(name, error=error)
        if (error := errors[name])
        else Rebooted(name, failures_of(target, observer, name, known[name]))
        for name in names
    ]
    drained = {one.host for one in mine}
    back = [one.host for one in result if one.is_good and one.host in drained]
    if not back:
        return result
    with open_session(target, "node", observer, changes=True) as session:
        idle = {one.host: one.said for one in maintenance.end(session, back) if not one.works}
    return [_with_state(one, idle) for one in result]


def _with_state(one: Rebooted, idle: Mapping[str, str]) -> Rebooted:
    if one.host not in idle:
        return one
    fix = f"appliance health --hosts {one.host}"
    return Rebooted(one.host, error=ApplianceError(f"gets no work: {idle[one.host]}", fix))


def _drain(
    session: Session, seen: Sequence[HostOwner], minutes: float, *, evict: bool
) -> list[Rebooted]:
    """Drain the hosts of a wave; if one is not free in time, all return to service, and why is returned."""
    if not seen:
        return []
    planned = maintenance.maintenance_for(WHY)
    kept = maintenance.begin(session, seen, planned, minutes, evict=evict)
    busy = {one.host: one.work for one in kept if one.work}
    if not busy:
        return []
    maintenance.end(session, [one.host for one in seen])
    fix = "wait longer with --wait, or end the work with --evict"
    return [
        Rebooted(
            host, error=DeadlineExceeded(f"is not free, so it was not rebooted: {work[0]}", fix)
        )
        for host, work in busy.items()
    ]


def _reboot(session: Session, name: str) -> ApplianceError | None:
    """Reboot a host and wait until it has booted; why it has not, or None."""
    try:
        before = _boot(session, name)
        # Without a delay, the connection ends before the answer.
        session.remote.run(name, ["systemd-run", "--quiet", "--on-active=1", "systemctl", "reboot"])
    except ApplianceError as error:
        return error
    session.tell(Message(text="reboots", host=name))
    session.remote.leave(name)
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if session.cancelled.wait(PAUSE):
            break
        try:
            now = _boot(session, name)
        except ApplianceError:
            continue
        if now[:2] != before[:2] and now[2] not in {"initializing", "starting"}:
            session.tell(Message(text="has booted", host=name))
            return None
    return DeadlineExceeded(
        f"has not booted within {PATIENCE / 60:g} min", "look at its console", name
    )


def _boot(session: Session, name: str) -> tuple[str, str, str]:
    """The boot's id, the start of its userspace, and systemd's state."""
    done = session.remote.run(name, ["sh", "-c", BOOT], timeout=20)
    lines = [line.partition("=")[2] or line for line in done.stdout.split("\n")]
    if done.returncode or len(lines) < 3:
        raise ConfigError(f"{name}: systemd does not answer", "look at its console")
    return lines[0], lines[1], lines[2]
