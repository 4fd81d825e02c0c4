"""A restore of etcd on all its members: each step runs on every control host before the next step begins."""

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TypeVar

from pydantic import TypeAdapter

from appliance.adapters.json_answers import parsed
from appliance.engine.look.gather import DEFECT, each
from appliance.engine.session import Session
from appliance.errors import ApplianceError, ConfigError
from appliance.models.events import Message
from appliance.stages.kubernetes import variables as kubernetes
from appliance.text import cleaned

T = TypeVar("T")

PLACE = "/usr/local/sbin"
BACKUPS, RESTORE = "appliance-etcd", "appliance-etcd-restore"
REPAIR = "appliance-etcd-repair"
"""The programs that role kubernetes installs on control hosts."""
LOOK_SECONDS, STEP_SECONDS = 120.0, 900.0
REFRESH = "systemctl restart kubelet; pkill -TERM -x kube-proxy; true"
"""kubelet and kube-proxy cache the earlier state; a restart makes them read it again. Pods keep running."""
STEPS = {
    "stop": "etcd and the API are stopped",
    "swap": "the restored state is in place; the earlier state is in /var/lib/etcd/before-{}",
    "start": "etcd and the API are started",
    "ready": "the API is ready",
}
WAYS = "to continue, run the same command; to undo the restore: appliance etcd abandon"

GONE = "if most control hosts are lost permanently: docs/kubernetes.md, Two of three control hosts gone"


@dataclass(frozen=True)
class RestoreOrder:
    """One restore: the parts that are equal on all members. ``members``: peer address by etcd's name."""

    id: str
    backup: str
    digest: str
    members: Mapping[str, str]
    done: bool = False

    @property
    def line(self) -> bytes:
        """As read by the hosts."""
        return json.dumps(asdict(self)).encode() + b"\n"


@dataclass(frozen=True)
class EtcdMember:
    """A control host: its member of etcd, and the progress of a restore. ``free``: free bytes for its data."""

    name: str
    peer: str
    authority: str
    free: int
    step: str = ""
    order: RestoreOrder | None = None

    @property
    def is_open(self) -> bool:
        """Whether a restore began here and is unfinished."""
        return self.order is not None and not self.order.done

    def has_begun(self, order: RestoreOrder) -> bool:
        """Whether it is this restore."""
        return self.order is not None and self.order.id == order.id


def program(
    session: Session,
    host: str,
    *argv: str,
    seconds: float = LOOK_SECONDS,
    content: bytes | None = None,
) -> str:
    """The output of a program of role kubernetes on a control host. Raises ApplianceError."""
    given = session.site.kubernetes
    assert given is not None
    # sudo's secure_path lacks /usr/local/sbin on the RHEL family.
    words = (f"{PLACE}/{argv[0]}", *argv[1:], "--folder", given.etcd_backup.at)
    done = session.remote.run(host, words, input=content, timeout=seconds)
    if not done.returncode:
        return done.stdout
    said = (done.stderr.strip().splitlines() or [f"{argv[0]}: exit {done.returncode}"])[-1]
    is_unknown = "not found" in said or "invalid choice" in said
    look = "appliance health --check kubernetes"
    hint = "appliance deploy --stage kubernetes" if is_unknown else look
    raise ApplianceError(said.removeprefix(f"{argv[0]}: "), hint, host)


def answer(
    session: Session, host: str, kind: type[T], *argv: str, seconds: float = LOOK_SECONDS
) -> T:
    """The JSON output of a program. Raises ApplianceError, also for invalid output."""
    said = program(session, host, *argv, seconds=seconds)
    try:
        return TypeAdapter(kind).validate_python(cleaned(parsed(said)))
    except ValueError as error:
        what = str(error).splitlines()[0]
        text = f"the output of {argv[0]} cannot be read: {what}"
        raise ApplianceError(text, DEFECT, host) from None


def ask(session: Session) -> dict[str, EtcdMember | ApplianceError]:
    """Every control host's part; its failure is a value."""

    def part(host: str) -> EtcdMember | ApplianceError:
        try:
            return answer(session, host, EtcdMember, RESTORE, "look")
        except ApplianceError as error:
            return error

    names = [host.name for host in kubernetes.control_hosts(session.site)]
    return dict(each(names, part))


def require_all(answers: Mapping[str, EtcdMember | ApplianceError]) -> dict[str, EtcdMember]:
    """The parts, if every host returned one. Raises ApplianceError: a restore needs all members."""
    refusals = {h: answer for h, answer in answers.items() if isinstance(answer, ApplianceError)}
    for host, answer in refusals.items():
        text = "a restore needs every control host; nothing was changed"
        hint = f"{answer.hint}; {GONE}" if 2 * len(refusals) > len(answers) else answer.hint
        raise ApplianceError(f"{answer.message}; {text}", hint, host)
    return {host: part for host, part in answers.items() if isinstance(part, EtcdMember)}


def restore_in_progress(parts: Mapping[str, EtcdMember]) -> RestoreOrder:
    """The single restore in progress. Raises ConfigError if there is none."""
    found = {part.order.id: part.order for part in parts.values() if part.order and part.is_open}
    if not found:
        raise ConfigError("no restore is in progress", "list the backups: appliance etcd list")
    if len(found) > 1:
        raise ApplianceError(
            f"restores of {' and '.join(order.backup for order in found.values())} are in progress",
            "undo them: appliance etcd abandon",
        )
    return next(iter(found.values()))


def run_restore(
    session: Session, order: RestoreOrder, source: str, parts: Mapping[str, EtcdMember]
) -> None:
    """Continues the restore from its current step. ``source``: the host that has the backup, "" if no host needs it any more.

    Raises ApplianceError.
    """
    hosts = tuple(parts)
    if source:
        try:
            lacking = [h for h in hosts if h != source and not parts[h].has_begun(order)]
            _copy(session, order, source, lacking)
            _step(session, order, hosts, "prepare")
        except ApplianceError as error:
            _best_effort(session, hosts)
            text = f"{error.message}; nothing was changed"
            raise ApplianceError(text, error.hint, error.host) from None
        _report(session, f"the state of {order.backup} is ready on {', '.join(hosts)}")
    for step, text in STEPS.items():
        try:
            _step(session, order, hosts, step)
        except ApplianceError as error:
            raise ApplianceError(error.message, WAYS, error.host) from None
        _report(session, text.format(order.id))
    _refresh(session, hosts)
    _step(session, order, hosts, "finish")


def roll_back(session: Session, answers: Mapping[str, EtcdMember | ApplianceError]) -> RestoreOrder:
    """Undoes the unfinished restore on every host that answers, if these are a majority. Raises ApplianceError."""
    parts = {host: part for host, part in answers.items() if isinstance(part, EtcdMember)}
    silent = [host for host in answers if host not in parts]
    if len(parts) <= len(silent):
        error = next(answer for answer in answers.values() if isinstance(answer, ApplianceError))
        text = f"a majority of etcd's members is needed, but {', '.join(silent)} do not answer: {error.told_of()}"
        raise ApplianceError(text, error.hint)
    order = restore_in_progress(parts)
    if through := [
        host for host, part in parts.items() if part.has_begun(order) and not part.is_open
    ]:
        raise ApplianceError(
            f"the restore is already finished on {', '.join(through)}",
            f"finish it: appliance etcd restore {order.backup}",
        )
    _on(session, parts, lambda host: program(session, host, RESTORE, "back", seconds=STEP_SECONDS))
    for host in silent:
        text = "did not answer: run appliance etcd abandon again once it is back"
        session.tell(Message(text=text, level="warning", host=host))
    return order


def _step(session: Session, order: RestoreOrder, hosts: Sequence[str], step: str) -> None:
    def take(host: str) -> str:
        return program(session, host, RESTORE, step, seconds=STEP_SECONDS, content=order.line)

    _on(session, hosts, take)


def _copy(session: Session, order: RestoreOrder, source: str, hosts: Sequence[str]) -> None:
    """In chunks through this machine: control hosts cannot log in to each other."""
    offset = 0
    while hosts:
        asked = ("part", "--offset", str(offset))
        content = base64.b64decode(program(session, source, RESTORE, *asked, content=order.line))
        if not content:
            return
        given = ("take", "--offset", str(offset))
        sent = order.line + content
        _on(session, hosts, lambda h, g=given, s=sent: program(session, h, RESTORE, *g, content=s))  # type: ignore[misc]
        offset += len(content)


def _refresh(session: Session, done: Sequence[str]) -> None:
    for host in kubernetes.members(session.site):
        if host.name in done:
            continue
        try:
            session.remote.run(host.name, ("sh", "-c", REFRESH), timeout=LOOK_SECONDS)
        except ApplianceError as error:
            text = f"{error.message}; restart kubelet there once it is back: it caches the earlier state"
            session.tell(Message(text=text, level="warning", host=host.name))


def _best_effort(session: Session, hosts: Sequence[str]) -> None:
    try:
        _on(session, hosts, lambda host: program(session, host, RESTORE, "back"))
    except ApplianceError as error:
        text = f"{error.message}; to clean up there: appliance etcd abandon"
        session.tell(Message(text=text, level="warning", host=error.host or ""))


def _on(
    session: Session, hosts: Sequence[str] | Mapping[str, EtcdMember], work: Callable[[str], str]
) -> None:
    """Runs the work on all hosts in parallel; then raises ApplianceError if one failed, naming each."""

    def tried(host: str) -> ApplianceError | None:
        try:
            work(host)
        except ApplianceError as error:
            return error
        return None

    failed = [(host, error) for host, error in each(hosts, tried) if error]
    if len(failed) == 1:
        (host, error), *_ = failed
        raise ApplianceError(error.message, error.hint, host)
    if failed:
        said = "; ".join(f"{host}: {error.message}" for host, error in failed)
        raise ApplianceError(said, failed[0][1].hint)


def _report(session: Session, text: str) -> None:
    session.tell(Message(text=text))
