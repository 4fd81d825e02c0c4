"""Etcd: backups of the cluster's state on its control hosts, and one of them brought back on all at once."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from appliance.actions.interrupt import interruptible
from appliance.actions.opening import Target, open_session
from appliance.engine.etcd import (
    BACKUPS,
    Order,
    Part,
    all_of,
    answer,
    ask,
    carry_out,
    program,
    take_back,
    under_way,
)
from appliance.engine.gather import each
from appliance.engine.lease import leased
from appliance.engine.session import Session
from appliance.errors import ApplianceError, ConfigError
from appliance.models.events import Message, Observer
from appliance.stages.kubernetes.site import EtcdBackup
from appliance.stages.kubernetes.variables import control_hosts

VERB = "etcd"
SAVE_SECONDS = 600.0
ROOM = 3
"""Times the backup's size: its copy, the state made from it, and its growth."""


@dataclass(frozen=True)
class Backup:
    """One backup as it lies on a host; ``written``: seconds since 1970."""

    name: str
    bytes: int
    written: int


@dataclass(frozen=True)
class Examined:
    """The backups of a host; of one that was asked for its digest, or why it will not do."""

    backups: tuple[Backup, ...]
    digest: str = ""
    refusal: str = ""


@dataclass(frozen=True)
class Restore:
    """What is about to be done, for whoever is asked. ``source``: the host whose backup it is, "" where all have theirs made."""

    order: Order
    source: str
    parts: Mapping[str, Part]

    @property
    def steps(self) -> dict[str, str]:
        """How far each host has come already; empty for one that begins."""
        return {host: part.step for host, part in self.parts.items() if part.has_begun(self.order)}


Listed = tuple[Backup, ...] | ApplianceError


def backups(target: Target, observer: Observer) -> tuple[str, Mapping[str, Listed]]:
    """The site's name, and what each control host has, oldest first; a host's failure is a value."""
    with open_session(target, VERB, observer) as session:
        own_cluster(session)
        hosts = [host.name for host in control_hosts(session.site)]
        return session.site.name, dict(each(hosts, lambda host: _listed(session, host)))


def save(target: Target, observer: Observer) -> tuple[str, str]:
    """Has the first control host whose etcd answers write a backup: the host, and the backup's name."""
    with open_session(target, VERB, observer) as session:
        keep = own_cluster(session).keep
        refusals = []
        for host in control_hosts(session.site):
            try:
                return host.name, _saved(session, host.name, keep)
            except ApplianceError as error:
                refusals.append(ApplianceError(error.message, error.hint, host.name))
        raise refusals[0]


def restore(
    target: Target, name: str, observer: Observer, consent: Callable[[Restore], bool]
) -> bool:
    """Brings a backup back on every control host; False where nobody agreed.

    Raises ApplianceError before anything is touched where a host does not answer, or no backup of that name will do.
    A run that was cut off is continued by the same call.
    """
    with open_session(target, VERB, observer) as session:
        if not consent(_considered(session, name)):
            return False
    with (
        open_session(target, VERB, observer, changes=True) as session,
        interruptible(session),
        leased(session, control_names(session)),
    ):
        try:
            _restored(session, name)
        except ApplianceError as error:
            if session.cancelled.is_set():
                raise KeyboardInterrupt from error
            raise
    return True


def abandon(target: Target, observer: Observer, consent: Callable[[Order], bool]) -> bool:
    """The state before a restore that is under way, on every control host again; False where nobody agreed.

    Raises ConfigError where none is.
    """
    with open_session(target, VERB, observer) as session:
        own_cluster(session)
        found = {h: part for h, part in ask(session).items() if isinstance(part, Part)}
        if not consent(under_way(found)):
            return False
    with (
        open_session(target, VERB, observer, changes=True) as session,
        leased(session, control_names(session)),
    ):
        session.journal.append(session.run, "run_started", verb=VERB)
        order = take_back(session, ask(session))
        session.journal.append(session.run, "abandoned", backup=order.backup)
    return True


def control_names(session: Session) -> tuple[str, ...]:
    """Those that have a member of etcd each."""
    return tuple(host.name for host in control_hosts(session.site))


def own_cluster(session: Session) -> EtcdBackup:
    """How the site backs etcd up. Raises ConfigError where the cluster is not the appliance's."""
    given = session.site.kubernetes
    if given is None:
        name = session.site.name
        raise ConfigError(f"{name} has no cluster", "give site.yml a section kubernetes")
    if given.external:
        raise ConfigError(
            "the cluster is somebody else's, and so are its backups", "ask its owner to restore it"
        )
    return given.etcd_backup


def _listed(session: Session, host: str) -> Listed:
    try:
        return answer(session, host, Examined, BACKUPS, "examine").backups
    except ApplianceError as error:
        return error


def _saved(session: Session, host: str, keep: int) -> str:
    words = (BACKUPS, "save", "--keep", str(keep))
    return program(session, host, *words, seconds=SAVE_SECONDS).strip()


def _restored(session: Session, name: str) -> None:
    wanted = _considered(session, name)
    session.journal.append(session.run, "run_started", verb=VERB)
    if not wanted.steps:
        _save_before(session, wanted.source)
    carry_out(session, wanted.order, wanted.source, wanted.parts)
    session.journal.append(session.run, "restored", backup=name)


def _save_before(session: Session, host: str) -> None:
    try:
        # None is let go meanwhile: it may be the very one that is wanted.
        text = (
            f"what etcd has now is backup {_saved(session, host, keep=0)}: the way back afterwards"
        )
        session.tell(Message(text=text, host=host))
    except ApplianceError as error:
        text = f"what etcd has now cannot be backed up ({error.message}); its files are kept"
        session.tell(Message(text=text, level="warning", host=host))


def _considered(session: Session, name: str) -> Restore:
    """What is to be done; raises ApplianceError where it must not be."""
    own_cluster(session)
    parts = all_of(ask(session))
    if any(part.is_open for part in parts.values()):
        return _continued(session, name, parts)
    if len({part.authority for part in parts.values()}) > 1:
        raise ApplianceError(
            "the control hosts are not of one cluster: their authorities differ",
            "appliance health --check kubernetes",
        )
    source, digest, size = _chosen(session, parts, name)
    for host, part in parts.items():
        if part.free < ROOM * size:
            raise ApplianceError(
                f"/var/lib/etcd has room for {part.free / 1e6:.0f} MB, and a restore needs {ROOM * size / 1e6:.0f} MB",
                "make room; what earlier restores kept is in /var/lib/etcd/before-*",
                host,
            )
    members = {part.name: part.peer for part in parts.values()}
    order = Order(f"{session.run}-{digest[:8]}", name, digest, members)
    return Restore(order, source, parts)


def _continued(session: Session, name: str, parts: Mapping[str, Part]) -> Restore:
    order = under_way(parts)
    begun = [host for host, part in parts.items() if part.has_begun(order)]
    if order.backup != name:
        raise ApplianceError(
            f"a restore of {order.backup} is under way on {', '.join(begun)}",
            f"appliance etcd restore {order.backup} goes on with it, appliance etcd abandon takes it back",
        )
    if len(begun) == len(parts):
        return Restore(order, "", parts)
    if any(parts[host].step != "prepared" for host in begun):
        # It lost its part: begun anew, it would forget what the others have agreed on since.
        lacking = ", ".join(host for host in parts if host not in begun)
        raise ApplianceError(
            f"{lacking} knows nothing of the restore the others have gone on with",
            "appliance etcd abandon takes it back",
        )
    source, digest, _ = _chosen(session, parts, name)
    if digest != order.digest:
        text = f"{name} is not what it was when the restore began"
        raise ApplianceError(text, "appliance etcd abandon takes it back", source)
    return Restore(order, source, parts)


def _chosen(session: Session, hosts: Mapping[str, Part], name: str) -> tuple[str, str, int]:
    """The first host with that backup in good order, its digest and size."""
    refusals: list[ApplianceError] = []
    for host in hosts:
        found = answer(session, host, Examined, BACKUPS, "examine", name)
        sizes = {backup.name: backup.bytes for backup in found.backups}
        if found.digest and name in sizes:
            return host, found.digest, sizes[name]
        if name in sizes:
            refusals.append(ApplianceError(found.refusal, "appliance etcd list", host))
    missing = ApplianceError(f"no control host has a backup {name}", "appliance etcd list")
    raise (refusals or [missing])[0]
