"""Etcd: backups on the control hosts, and restoring one of them on all."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from appliance.actions.kubernetes.etcd_members import (
    BACKUPS,
    EtcdMember,
    RestoreOrder,
    answer,
    ask,
    program,
    require_all,
    restore_in_progress,
    roll_back,
    run_restore,
)
from appliance.actions.sites.interrupts import interruptible
from appliance.actions.sites.opening import Target, open_session
from appliance.engine.look.gather import each
from appliance.engine.run.lease import leased
from appliance.engine.session import Session
from appliance.errors import ApplianceError, ConfigError
from appliance.models.events import Message, Observer
from appliance.stages.kubernetes.site import EtcdBackup
from appliance.stages.kubernetes.variables import control_hosts

VERB = "etcd"
SAVE_SECONDS = 600.0
ROOM = 3
"""Multiple of the backup's size: its copy, the state made from it, and its growth."""


@dataclass(frozen=True)
class Backup:
    """One backup on a host; ``written``: seconds since 1970."""

    name: str
    bytes: int
    written: int


@dataclass(frozen=True)
class Examined:
    """The backups of a host; for a requested one also its digest, or why it is unusable."""

    backups: tuple[Backup, ...]
    digest: str = ""
    refusal: str = ""


@dataclass(frozen=True)
class Restore:
    """What is about to be done, for the confirmation. ``source``: the host with the backup, "" if every host is prepared."""

    order: RestoreOrder
    source: str
    parts: Mapping[str, EtcdMember]

    @property
    def steps(self) -> dict[str, str]:
        """The progress of each host; empty for a new restore."""
        return {host: part.step for host, part in self.parts.items() if part.has_begun(self.order)}


Listed = tuple[Backup, ...] | ApplianceError


def backups(target: Target, observer: Observer) -> tuple[str, Mapping[str, Listed]]:
    """The site's name, and the backups of each control host, oldest first; a host's failure is a value."""
    with open_session(target, VERB, observer) as session:
        own_cluster(session)
        hosts = [host.name for host in control_hosts(session.site)]
        return session.site.name, dict(each(hosts, lambda host: _listed(session, host)))


def save(target: Target, observer: Observer) -> tuple[str, str]:
    """Writes a backup on the first control host whose etcd answers: returns the host, and the backup's name."""
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
    """Restores a backup on every control host; False if the user declined.

    Raises ApplianceError before any change if a host does not answer, or if no backup of that name is usable.
    The same call continues an interrupted run.
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


def abandon(target: Target, observer: Observer, consent: Callable[[RestoreOrder], bool]) -> bool:
    """Undoes an unfinished restore on every control host; False if the user declined.

    Raises ConfigError if no restore is in progress.
    """
    with open_session(target, VERB, observer) as session:
        own_cluster(session)
        found = {h: part for h, part in ask(session).items() if isinstance(part, EtcdMember)}
        if not consent(restore_in_progress(found)):
            return False
    with (
        open_session(target, VERB, observer, changes=True) as session,
        leased(session, control_names(session)),
    ):
        session.journal.append(session.run, "run_started", verb=VERB)
        order = roll_back(session, ask(session))
        session.journal.append(session.run, "abandoned", backup=order.backup)
    return True


def control_names(session: Session) -> tuple[str, ...]:
    """The hosts that have a member of etcd."""
    return tuple(host.name for host in control_hosts(session.site))


def own_cluster(session: Session) -> EtcdBackup:
    """The site's settings for backups of etcd. Raises ConfigError if the cluster is external."""
    given = session.site.kubernetes
    if given is None:
        name = session.site.name
        raise ConfigError(f"{name} has no cluster", "add a section kubernetes to site.yml")
    if given.external:
        raise ConfigError(
            "the cluster is external, and so are its backups", "ask its owner to restore it"
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
    run_restore(session, wanted.order, wanted.source, wanted.parts)
    session.journal.append(session.run, "restored", backup=name)


def _save_before(session: Session, host: str) -> None:
    try:
        # None is pruned meanwhile: it may be the one to be restored.
        text = f"the current state was saved as backup {_saved(session, host, keep=0)}, to return to it"
        session.tell(Message(text=text, host=host))
    except ApplianceError as error:
        text = (
            f"the current state of etcd cannot be backed up ({error.message}); its files are kept"
        )
        session.tell(Message(text=text, level="warning", host=host))


def _considered(session: Session, name: str) -> Restore:
    """What is to be done; raises ApplianceError if it must not be."""
    own_cluster(session)
    parts = require_all(ask(session))
    if any(part.is_open for part in parts.values()):
        return _continued(session, name, parts)
    if len({part.authority for part in parts.values()}) > 1:
        raise ApplianceError(
            "the control hosts belong to different clusters: their CAs differ",
            "appliance health --check kubernetes",
        )
    source, digest, size = _chosen(session, parts, name)
    for host, part in parts.items():
        if part.free < ROOM * size:
            raise ApplianceError(
                f"/var/lib/etcd has {part.free / 1e6:.0f} MB free, but a restore needs {ROOM * size / 1e6:.0f} MB",
                "free space; files of earlier restores are in /var/lib/etcd/before-*",
                host,
            )
    members = {part.name: part.peer for part in parts.values()}
    order = RestoreOrder(f"{session.run}-{digest[:8]}", name, digest, members)
    return Restore(order, source, parts)


def _continued(session: Session, name: str, parts: Mapping[str, EtcdMember]) -> Restore:
    order = restore_in_progress(parts)
    begun = [host for host, part in parts.items() if part.has_begun(order)]
    if order.backup != name:
        raise ApplianceError(
            f"a restore of {order.backup} is in progress on {', '.join(begun)}",
            f"to continue: appliance etcd restore {order.backup}; to undo it: appliance etcd abandon",
        )
    if len(begun) == len(parts):
        return Restore(order, "", parts)
    if any(parts[host].step != "prepared" for host in begun):
        # It lost its state: starting over would lose what the others have committed since.
        lacking = ", ".join(host for host in parts if host not in begun)
        raise ApplianceError(
            f"{lacking} has lost the state of a restore that the other hosts continued",
            "undo the restore: appliance etcd abandon",
        )
    source, digest, _ = _chosen(session, parts, name)
    if digest != order.digest:
        text = f"backup {name} has changed since the restore began"
        raise ApplianceError(text, "undo the restore: appliance etcd abandon", source)
    return Restore(order, source, parts)


def _chosen(session: Session, hosts: Mapping[str, EtcdMember], name: str) -> tuple[str, str, int]:
    """The first host with an intact copy of that backup, its digest and size."""
    refusals: list[ApplianceError] = []
    for host in hosts:
        found = answer(session, host, Examined, BACKUPS, "examine", name)
        sizes = {backup.name: backup.bytes for backup in found.backups}
        if found.digest and name in sizes:
            return host, found.digest, sizes[name]
        if name in sizes:
            refusals.append(
                ApplianceError(found.refusal, "list the backups: appliance etcd list", host)
            )
    missing = ApplianceError(
        f"no control host has a backup {name}", "list the backups: appliance etcd list"
    )
    raise (refusals or [missing])[0]
