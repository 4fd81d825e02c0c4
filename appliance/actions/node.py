"""Node: who gives GPU hosts their work, and one host moved from Slurm to Kubernetes or back."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from appliance.actions.bounds import check_ids
from appliance.actions.deploy import Deployed, deploy
from appliance.actions.interrupt import interruptible
from appliance.actions.opening import Target, locate, open_session
from appliance.config.edit import candidate, give_owner
from appliance.config.load import LoadedSite, load_site
from appliance.engine.drain import Drain, drain, resume, schedulers
from appliance.engine.gather import each
from appliance.engine.lease import leased
from appliance.engine.selection import Filters
from appliance.engine.session import Session
from appliance.engine.work import Held
from appliance.errors import ApplianceError, ConfigError
from appliance.models.drain import Why
from appliance.models.events import Message, Observer
from appliance.models.plan import Plan
from appliance.models.site import Host, Owner, Role, Site

STAGES = ("kubernetes", "slurm")
"""The stages that give a host to its owner."""

REMEDY = "wait longer with --wait, or let it be ended with --evict"


@dataclass(frozen=True)
class Seen:
    """One GPU host: whose the site says it is, and what each scheduler says of it. ``error``: why that is not known."""

    host: str
    declared: Owner
    held: Mapping[Owner, Held] = field(default_factory=dict)
    error: ApplianceError | None = None

    @property
    def is_known(self) -> bool:
        """Whether all could be asked, and the declared owner has the host at all."""
        return self.error is None and self.declared in self.held

    @property
    def settled(self) -> bool:
        """Whether every scheduler takes the declared owner for its owner, and nobody else gives it work."""
        return self.is_known and all(
            held.owner is self.declared and (owner is self.declared or not held.gives)
            for owner, held in self.held.items()
        )

    @property
    def work(self) -> tuple[str, ...]:
        """What runs there."""
        return tuple(work for held in self.held.values() for work in held.work)


@dataclass(frozen=True)
class Move:
    """What is about to be done, for whoever is asked."""

    seen: Seen
    owner: Owner
    file: Path
    minutes: float
    evict: bool


def show(target: Target, observer: Observer) -> tuple[str, tuple[Seen, ...]]:
    """The site's name, and every GPU host with its owner; changes nothing."""
    with open_session(target, "node", observer) as session:
        hosts = {host.name: host for host in session.site.with_role(Role.GPU)}
        return session.site.name, tuple(
            seen for _, seen in each(hosts, lambda name: _look(session, hosts[name]))
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
    """Gives one host another owner. Raises ConfigError before a host is touched where that makes no sense.

    A drain that is not over in time leaves everything as it was. A run that was cut off is continued by the same call.
    """
    loaded = locate(target, raise_rack=False, observer=observer)
    host = _movable(loaded.site, name, owner)
    file = loaded.site_document.file

    def load(path: Path) -> LoadedSite:
        return load_site(path, target.profile, check_ids=check_ids())

    if loaded.site.owner(host) is not owner:
        with candidate(file, name, owner, load):
            pass  # The site may be so.
    with open_session(target, "node", observer) as session:
        seen = _look(session, host)
        if seen.error:
            raise seen.error
        if seen.settled and seen.declared is owner:
            raise ConfigError(f"{name} is a host of {owner} already", "appliance node show")
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
        session.tell(Message(text=f"is free; the site gives it to {owner} now", host=name))
    stages = tuple(s for s in STAGES if s != "kubernetes" or loaded.site.kubernetes)
    done = deploy(target, Filters(limit=(name,), stages=stages), observer, _agreed)
    if done.exit_code not in {0, 3}:
        text = f"is not with {owner} yet; once that is mended, the same command goes on"
        observer.handle(Message(text=text, level="warning", host=name))
    return done


def _agreed(plan: Plan) -> bool:
    return True


def _movable(site: Site, name: str, owner: Owner) -> Host:
    """The host, where it may be moved to that owner. Raises ConfigError."""
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
            f"{name} is a control host: it carries the schedulers themselves and is not moved",
            f"hosts that can be moved: {names}",
        )
    if site.kubernetes is None:
        raise ConfigError(
            f"site {site.name} has no Kubernetes, so every host is Slurm's",
            "add a section kubernetes to site.yml (docs/kubernetes.md), then appliance deploy",
        )
    if site.kubernetes.external:
        raise ConfigError(
            "the cluster is not of the appliance's making, so it marks no hosts there",
            f"kubectl drain and taint {name} yourself, then write its owner: {owner} to site.yml and appliance deploy",
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


def _look(session: Session, host: Host) -> Seen:
    """A failure is a value."""
    declared = session.site.owner(host)
    try:
        found = {s.owner: s.look(host.name) for s in schedulers(session)}
    except ApplianceError as error:
        return Seen(host.name, declared, error=error)
    return Seen(host.name, declared, {owner: held for owner, held in found.items() if held})
