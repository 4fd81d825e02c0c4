"""Node: the owners of GPU hosts, and moving a host between Slurm and Kubernetes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from appliance.actions.deployment.deploy import Deployed, deploy
from appliance.actions.profiles.limit_bounds import check_ids
from appliance.actions.sites.interrupts import interruptible
from appliance.actions.sites.opening import Target, locate, open_session
from appliance.config.load import LoadedSite, load_site
from appliance.config.site_edit import candidate, give_owner
from appliance.engine.look.gather import each
from appliance.engine.plan.selection import Filters
from appliance.engine.run.drain import Drain, drain, resume, schedulers
from appliance.engine.run.lease import leased
from appliance.engine.run.schedulers import SchedulerHost
from appliance.engine.session import Session
from appliance.errors import ApplianceError, ConfigError
from appliance.models.drain import Maintenance, Why
from appliance.models.events import Message, Observer
from appliance.models.plan import Plan
from appliance.models.site import Host, Owner, Role, Site

STAGES = ("kubernetes", "slurm")
"""The stages that give a host to its owner."""

REMEDY = "wait longer with --wait, or end the work with --evict"


@dataclass(frozen=True)
class HostOwner:
    """One GPU host: its declared owner, and its state in each scheduler. ``error``: why that is unknown."""

    host: str
    declared: Owner
    held: Mapping[Owner, SchedulerHost] = field(default_factory=dict)
    error: ApplianceError | None = None

    @property
    def is_known(self) -> bool:
        """Whether all schedulers answered, and the declared owner lists the host."""
        return self.error is None and self.declared in self.held

    @property
    def settled(self) -> bool:
        """Whether every scheduler agrees with the declared owner, and only the owner gives it work."""
        return self.is_known and all(
            held.owner is self.declared and (owner is self.declared or not held.gives)
            for owner, held in self.held.items()
        )

    @property
    def maintenance(self) -> Maintenance | None:
        """The planned work for which an operator keeps it out of work."""
        return next(filter(None, (Maintenance.read(h.reason) for h in self.held.values())), None)

    @property
    def work(self) -> tuple[str, ...]:
        """The work on the host."""
        return tuple(work for held in self.held.values() for work in held.work)


@dataclass(frozen=True)
class Move:
    """What is about to be done, for the confirmation."""

    seen: HostOwner
    owner: Owner
    file: Path
    minutes: float
    evict: bool


def show(target: Target, observer: Observer) -> tuple[str, tuple[HostOwner, ...]]:
    """The site's name, and every GPU host with its owner; changes nothing."""
    with open_session(target, "node", observer) as session:
        hosts = {host.name: host for host in session.site.with_role(Role.GPU)}
        return session.site.name, tuple(
            seen for _, seen in each(hosts, lambda name: look_at(session, hosts[name]))
        )


def assign(
    target: Target,
    name: str,
    owner: Owner,
    observer: Observer,
    consent: Callable[[Move], bool],
    minutes: float,
    *,
    evict: bool = False,
) -> Deployed:
    """Assigns a host to another owner. Raises ConfigError before any change if that is impossible.

    If draining exceeds the time limit, everything stays unchanged. The same call continues an interrupted run.
    """
    loaded = locate(target, raise_rack=False, observer=observer)
    host = _movable(loaded.site, name, owner)
    file = loaded.site_document.file

    def load(path: Path) -> LoadedSite:
        return load_site(path, target.profile, check_ids=check_ids())

    if loaded.site.owner(host) is not owner:
        with candidate(file, name, owner, load):
            pass  # The edited site may be invalid.
    with open_session(target, "node", observer) as session:
        seen = look_at(session, host)
        if seen.error:
            raise seen.error
        if seen.settled and seen.declared is owner:
            raise ConfigError(
                f"{name} already belongs to {owner}", "show the owners: appliance node show"
            )
        session.remote.reach(name)
        if not consent(Move(seen, owner, file, minutes, evict)):
            return Deployed(None, 1)
    with (
        open_session(target, "node", observer, changes=True) as session,
        leased(session, (name,)),
    ):
        session.journal.append(session.run, "run_started", verb="node")
        _free(session, name, Drain(Why.MOVE, minutes * 60, evict, REMEDY))
        try:
            if session.site.owner(session.site.host(name)) is not owner:
                give_owner(file, name, owner, load)
        except BaseException:
            resume(session, (name,))
            raise
        session.journal.append(session.run, "assigned", host=name, owner=owner.value)
        session.tell(Message(text=f"is drained; its declared owner is {owner} now", host=name))
    stages = tuple(s for s in STAGES if getattr(loaded.site, s) is not None)
    done = deploy(target, Filters(limit=(name,), stages=stages), observer, _agreed)
    if done.exit_code not in {0, 3}:
        text = f"does not belong to {owner} yet; fix the cause, then run the same command again"
        observer.handle(Message(text=text, level="warning", host=name))
    return done


def _agreed(plan: Plan) -> bool:
    return True


def _movable(site: Site, name: str, owner: Owner) -> Host:
    """The host, if it may be moved to that owner. Raises ConfigError."""
    hosts = site.with_role(Role.GPU)
    host = next((h for h in site.hosts if h.name == name), None)
    names = ", ".join(h.name for h in hosts if Role.CONTROL not in h.roles)
    if host is None:
        raise ConfigError(f"{name}: no such host", f"hosts that can be moved: {names}")
    if host not in hosts:
        raise ConfigError(
            f"{name} has no GPUs, so neither Kubernetes nor Slurm gives it work",
            f"hosts that can be moved: {names}",
        )
    if Role.CONTROL in host.roles:
        raise ConfigError(
            f"{name} is a control host: it runs the schedulers themselves and cannot be moved",
            f"hosts that can be moved: {names}",
        )
    if site.slurm is None:
        raise ConfigError(
            f"site {site.name} has no Slurm, so Kubernetes owns every host",
            "add a section slurm to site.yml (docs/site.md), then run appliance deploy",
        )
    if site.kubernetes is None:
        raise ConfigError(
            f"site {site.name} has no Kubernetes, so Slurm owns every host",
            "add a section kubernetes to site.yml (docs/kubernetes.md), then run appliance deploy",
        )
    if site.kubernetes.external:
        raise ConfigError(
            "the cluster is external: this program does not taint its nodes",
            f"kubectl drain and taint {name} yourself, then write its owner: {owner} to site.yml and run appliance deploy",
        )
    return host


def _free(session: Session, name: str, wanted: Drain) -> None:
    with interruptible(session):
        try:
            drain(session, (name,), wanted)
        except ApplianceError:
            if not session.cancelled.is_set():
                raise
        if session.cancelled.is_set():
            resume(session, (name,))
            raise KeyboardInterrupt


def look_at(session: Session, host: Host) -> HostOwner:
    """The host as its schedulers see it; a failure is a value."""
    declared = session.site.owner(host)
    try:
        found = {s.owner: s.look(host.name) for s in schedulers(session)}
    except ApplianceError as error:
        return HostOwner(host.name, declared, error=error)
    return HostOwner(host.name, declared, {owner: held for owner, held in found.items() if held})
