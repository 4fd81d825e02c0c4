"""Backups off the hosts: listed, created, verified, and restored onto a control host."""

import sqlite3
import tarfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import TypeAdapter

from appliance.actions.sites.interrupts import interruptible
from appliance.actions.sites.opening import Target, open_session
from appliance.adapters import leftovers
from appliance.adapters.json_answers import parsed
from appliance.backup import archive, backups, store
from appliance.backup.trouble import TARGET, TOOL, Trouble
from appliance.config.bounded_files import TooLarge, read_bytes
from appliance.engine.look.gather import DEFECT, each
from appliance.engine.run.lease import leased
from appliance.engine.session import Session
from appliance.errors import ApplianceError, ConfigError
from appliance.models.events import Message, Observer
from appliance.models.site import Role
from appliance.stages.backup.rules import SSH_KEY
from appliance.stages.backup.site import BackupOptions
from appliance.stages.backup.variables import known_hosts, wanted
from appliance.text import cleaned

T = TypeVar("T")

CONTROL_MACHINE = backups.CONTROL_MACHINE

VERB = "backup"
PROGRAM = "/usr/local/sbin/appliance-backup"
LOOK_SECONDS, WORK_SECONDS = 300.0, 3600.0
IDENTITY = b"AGE-SECRET-KEY-1"
SITE = "site.tar"
JOURNAL = "journal.sqlite"
DEPLOY = "appliance deploy --stage backup"
UNSIGNED = "backup {} is not signed with backup_ssh_key of this site: its server may have forged it"
UNSIGNED_FIX = "choose another; if it was written before backup_ssh_key changed, or by an earlier release, add --force"


@dataclass(frozen=True)
class SavedSlurm:
    """What a backup has of Slurm. ``changed``: the last change of a job, seconds since 1970."""

    cluster: str
    jobs: int
    changed: int
    associations: int
    release: str


@dataclass(frozen=True)
class SavedPart:
    """A file in a backup."""

    name: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Saved:
    """A backup by its manifest; ``problem``: why that cannot be read. ``written``: seconds since 1970.

    ``authentic``: whether this site signed it, None if that was not judged.
    """

    name: str
    problem: str = ""
    written: int = 0
    bytes: int = 0
    slurm: SavedSlurm | None = None
    parts: tuple[SavedPart, ...] = ()
    authentic: bool | None = None


@dataclass(frozen=True)
class OnHost:
    """What a control host finds on the target, by the host that was saved."""

    target: str
    hosts: dict[str, tuple[Saved, ...]]


@dataclass(frozen=True)
class Verified:
    """``decrypted``: whether the private key was given, and each part was compared. ``authentic``: whether this site signed it, None without a key for that."""

    name: str
    parts: tuple[SavedPart, ...]
    decrypted: bool
    authentic: bool | None = None


@dataclass(frozen=True)
class Considered:
    """A restore before it begins. ``lost``: jobs on the host that changed after the backup; ``now``: the host's clock.

    ``authentic``: whether this site signed the backup, None without a key for that.
    """

    manifest: Saved
    lost: int
    now: float
    authentic: bool | None = None


@dataclass(frozen=True)
class Restored:
    """``kept``: where the replaced data is; ``etcd``: snapshots that appliance etcd restore can use now."""

    manifest: Saved
    kept: tuple[str, ...]
    etcd: tuple[str, ...]


Found = Mapping[str, tuple[Saved, ...] | ApplianceError]


def listed(target: Target, observer: Observer) -> tuple[str, str, Found]:
    """Site, target, and the backups of each control host and of the control machine; a host's failure is a value."""
    with open_session(target, VERB, observer) as session:
        given = required(session)

        def ask(host: str) -> OnHost | ApplianceError:
            try:
                return _answer(session, host, OnHost, "list")
            except ApplianceError as error:
                return error

        found: dict[str, tuple[Saved, ...] | ApplianceError] = {}
        for host, answer in each(control_names(session), ask):
            found[host] = answer.hosts.get(host, ()) if isinstance(answer, OnHost) else answer
            if isinstance(answer, OnHost):
                found[CONTROL_MACHINE] = answer.hosts.get(CONTROL_MACHINE, ())
        return session.site.name, given.target, found


def create(target: Target, observer: Observer, force: bool) -> dict[str, Saved | ApplianceError]:
    """Writes a backup of each control host, and of the site's folder; a failure is a value. ``force``: also of a new accounting."""
    with (
        open_session(target, VERB, observer, keeps=True) as session,
        session.notices.of_run(VERB),
    ):
        required(session)

        def save(host: str) -> Saved | ApplianceError:
            try:
                words = ("save", *(("--force",) if force else ()))
                return _answer(session, host, Saved, *words, seconds=WORK_SECONDS)
            except ApplianceError as error:
                return error

        found: dict[str, Saved | ApplianceError] = dict(each(control_names(session), save))
        try:
            found[CONTROL_MACHINE] = _save_site(session)
        except ApplianceError as error:
            found[CONTROL_MACHINE] = error
        if any(isinstance(one, ApplianceError) for one in found.values()):
            session.notices.fail()
        return found


def verify(
    target: Target, observer: Observer, name: str, host: str, of: str, identity: Path | None
) -> Verified:
    """Reads a backup from the target and compares it. Raises ApplianceError if it differs."""
    key = _identity(identity) if identity else b""
    with open_session(target, VERB, observer) as session:
        required(session)
        words = ("verify", name, "--of", of, *(("--identity",) if key else ()))
        chosen = _control_host(session, host)
        return _answer(session, chosen, Verified, *words, content=key, seconds=WORK_SECONDS)


def restore(
    target: Target,
    observer: Observer,
    name: str,
    host: str,
    of: str,
    identity: Path,
    force: bool,
    consent: Callable[[str, Considered], bool],
) -> Restored | None:
    """Restores a backup onto a control host; None if the user declined.

    ``of``: the host that was saved, "" for the same. ``force``: although newer data of the host is lost. Raises ApplianceError;
    before any change if the backup is damaged or does not fit.
    """
    key = _identity(identity)
    with open_session(target, VERB, observer) as session:
        required(session)
        chosen = _control_host(session, host)
        considered = _answer(session, chosen, Considered, "consider", name, "--of", of)
        if considered.lost and not force:
            text = f"{considered.lost} jobs on {chosen} changed after that backup and would be lost; nothing was changed"
            raise ApplianceError(text, "choose a newer backup, or add --force", chosen)
        if considered.authentic is False and not force:
            raise ApplianceError(UNSIGNED.format(considered.manifest.name), UNSIGNED_FIX, chosen)
        if not consent(chosen, considered):
            return None
    found = considered.manifest.name
    with (
        open_session(target, VERB, observer, changes=True) as session,
        interruptible(session),
        leased(session, (chosen,)),
    ):
        session.journal.append(session.run, "run_started", verb=VERB)
        session.tell(Message(text=f"restoring {found}", host=chosen))
        words = ("restore", found, "--of", of, "--identity", *(("--force",) if force else ()))
        done = _answer(session, chosen, Restored, *words, content=key, seconds=WORK_SECONDS)
        session.journal.append(session.run, "restored", backup=found)
    return done


def required(session: Session) -> BackupOptions:
    """The site's settings. Raises ConfigError without a section ``backup`` or data to save."""
    given = session.site.backup
    if given is None:
        text = f"{session.site.name} has no section backup"
        raise ConfigError(text, "add backup: with target and recipient to site.yml, then deploy")
    return given


def control_names(session: Session) -> tuple[str, ...]:
    """The hosts that save data."""
    if not wanted(session.site):
        return ()
    return tuple(host.name for host in session.site.with_role(Role.CONTROL))


def _control_host(session: Session, name: str) -> str:
    known = control_names(session)
    if not known:
        text = f"no host of {session.site.name} saves data: it has neither Slurm nor a cluster of its own"
        raise ConfigError(text, "add a section slurm or kubernetes to site.yml")
    if name and name not in known:
        raise ConfigError(f"{name} is not a control host", f"control hosts: {', '.join(known)}")
    return name or known[0]


def _identity(file: Path) -> bytes:
    """The private key of age. Raises ConfigError; the message never has its content."""
    try:
        content = read_bytes(file)
    except TooLarge:
        raise ConfigError(f"{file} is too large for a key of age", "name the file") from None
    except OSError as error:
        raise ConfigError(f"{file} cannot be read ({error.strerror})", "check its path") from None
    if IDENTITY not in content:
        raise ConfigError(
            f"{file} has no private key of age",
            "name the file that age-keygen wrote; if it has a passphrase, decrypt it first: age -d",
        )
    return content


def _answer(
    session: Session,
    host: str,
    kind: type[T],
    *words: str,
    content: bytes = b"",
    seconds: float = LOOK_SECONDS,
) -> T:
    """The answer of the program on a control host. Raises ApplianceError."""
    done = session.remote.run(host, (PROGRAM, *words), input=content or None, timeout=seconds)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit {done.returncode}"]
        said = lines[-1].removeprefix("appliance-backup: ")
        is_missing = "not found" in said or "No such file" in said
        hint = DEPLOY if is_missing else f"on {host}: journalctl -u appliance-backup"
        raise ApplianceError(said, hint, host)
    try:
        return TypeAdapter(kind).validate_python(cleaned(parsed(done.stdout)))
    except ValueError as error:
        what = str(error).splitlines()[0]
        raise ApplianceError(
            f"the output of appliance-backup cannot be read: {what}", DEFECT, host
        ) from None


def _save_site(session: Session) -> Saved:
    """The site's folder with a copy of the journal, as one backup of the control machine. Raises ApplianceError."""
    given = required(session)
    with _private(session) as work:
        try:
            manifest = {
                **{"version": archive.VERSION, "site": session.site.name},
                **{"host": CONTROL_MACHINE, "written": int(time.time())},
            }
            (work / "parts").mkdir()
            _pack_site(session, work, work / "parts" / SITE)
            manifest["parts"] = archive.described(work / "parts", [SITE])
            packed = work / "packed"
            archive.pack(work / "parts", manifest, given.recipient, packed)
            found = _on_target(session, work).write(packed, manifest, given.days)
        except Trouble as error:
            hints = {
                TOOL: "on the control machine: apt-get install age openssh-client",
                TARGET: f"check that this machine reaches {given.target}, or has it mounted",
            }
            raise ApplianceError(str(error), hints.get(error.kind, "")) from None
        except OSError as error:
            raise ApplianceError(f"{error.filename}: {error.strerror}") from None
    return TypeAdapter(Saved).validate_python(found)


def _on_target(session: Session, work: Path) -> backups.Backups:
    given = required(session)
    key, known = work / "key", work / "known_hosts"
    secret = ""
    if given.target.startswith("ssh://"):
        key.touch(mode=0o600)
        secret = str(session.secrets[SSH_KEY])
        key.write_text(f"{secret}\n", encoding="utf-8")
        known.write_text(known_hosts(session.site) + "\n", encoding="utf-8")
    target = store.opened(given.target, str(key), str(known))
    return backups.Backups(target, session.site.name, CONTROL_MACHINE, work, secret.encode())


def _pack_site(session: Session, work: Path, file: Path) -> None:
    """Links are stored as links; the journal is a copy that is consistent while runs are active."""
    copy = work / JOURNAL
    journal = session.runs / JOURNAL
    with tarfile.open(file, "w") as made:
        for path in _files(session.folder):
            made.add(path, str(path.relative_to(session.folder)), recursive=False)
        if journal.exists():
            with (
                closing(sqlite3.connect(f"file:{journal}?mode=ro", uri=True)) as source,
                closing(sqlite3.connect(copy)) as sink,
            ):
                source.backup(sink)
            made.add(copy, f"runs/{JOURNAL}", recursive=False)


def _files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        is_journal = path.name.startswith(JOURNAL)
        if not is_journal and (path.is_symlink() or path.is_file() or path.is_dir()):
            yield path


@contextmanager
def _private(session: Session) -> Iterator[Path]:
    folder = leftovers.private_folder(leftovers.mark(session.folder_of_run))
    try:
        yield folder
    finally:
        leftovers.discard(folder)


def lost_minutes(considered: Considered) -> float:
    """Minutes since the backup, by the host's clock."""
    return (considered.now - considered.manifest.written) / 60


def summary(saved: Saved) -> Sequence[str]:
    """What is inside, in words."""
    words = []
    if saved.slurm:
        words.append(
            f"{saved.slurm.jobs} jobs and {saved.slurm.associations} associations of {saved.slurm.cluster}"
        )
    names = {part.name for part in saved.parts}
    words += [n.removesuffix(".snapshot") for n in sorted(names) if n.startswith("etcd/")]
    return [*words, *(["the site's folder"] if SITE in names else [])]
