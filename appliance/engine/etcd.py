"""A restore of etcd on all its members: each step on every control host before the next begins."""

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TypeVar

from pydantic import TypeAdapter

from appliance.adapters.answers import parsed
from appliance.engine.gather import DEFECT, each
from appliance.engine.session import Session
from appliance.errors import ApplianceError, ConfigError
from appliance.models.events import Message
from appliance.stages.kubernetes import variables as kubernetes
from appliance.text import cleaned

T = TypeVar("T")

PLACE = "/usr/local/sbin"
BACKUPS, RESTORE = "appliance-etcd", "appliance-etcd-restore"
REPAIR = "appliance-etcd-repair"
"""The programs role kubernetes brings to control hosts."""
LOOK_SECONDS, STEP_SECONDS = 120.0, 900.0
REFRESH = "systemctl restart kubelet; pkill -TERM -x kube-proxy; true"
"""kubelet and kube-proxy hold what they saw last; a restart makes them look anew. Pods go on."""
STEPS = {
    "stop": "etcd and the API are stopped",
    "swap": "the restored state is in its place, the one before in /var/lib/etcd/before-{}",
    "start": "etcd and the API are started",
    "ready": "the API is ready",
}
WAYS = "the same command goes on; appliance etcd abandon brings back the state before"

GONE = "where most control hosts are gone for good: docs/kubernetes.md, Two of three control hosts gone"


@dataclass(frozen=True)
class Order:
    """One restore: what is the same on all members. ``members``: peer address by etcd's name."""

    id: str
    backup: str
    digest: str
    members: Mapping[str, str]
    done: bool = False

    @property
    def line(self) -> bytes:
        """As the hosts read it."""
        return json.dumps(asdict(self)).encode() + b"\n"


@dataclass(frozen=True)
class Part:
    """A control host: its member of etcd, and how far it came with a restore. ``free``: bytes left for its data."""

    name: str
    peer: str
    authority: str
    free: int
    step: str = ""
    order: Order | None = None

    @property
    def is_open(self) -> bool:
        """Whether a restore began here and is not through."""
        return self.order is not None and not self.order.done

    def has_begun(self, order: Order) -> bool:
        """Whether it is this one."""
        return self.order is not None and self.order.id == order.id


def program(
    session: Session,
    host: str,
    *argv: str,
    seconds: float = LOOK_SECONDS,
    content: bytes | None = None,
) -> str:
    """What a program of role kubernetes printed on a control host. Raises ApplianceError."""
    given = session.site.kubernetes
    assert given is not None
    # sudo's own path leaves /usr/local/sbin out on the RHEL family.
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
    """What a program answered in JSON. Raises ApplianceError, also where that is no such answer."""
    said = program(session, host, *argv, seconds=seconds)
    try:
        return TypeAdapter(kind).validate_python(cleaned(parsed(said)))
    except ValueError as error:
        what = str(error).splitlines()[0]
        text = f"{argv[0]} answers what cannot be read: {what}"
        raise ApplianceError(text, DEFECT, host) from None


def ask(session: Session) -> dict[str, Part | ApplianceError]:
    """Every control host's part; its failure is a value."""

    def part(host: str) -> Part | ApplianceError:
        try:
            return answer(session, host, Part, RESTORE, "look")
        except ApplianceError as error:
            return error

    names = [host.name for host in kubernetes.control_hosts(session.site)]
    return dict(each(names, part))


def all_of(answers: Mapping[str, Part | ApplianceError]) -> dict[str, Part]:
    """The parts, where every host gave one. Raises ApplianceError: a restore is of all members or of none."""
    refusals = {h: answer for h, answer in answers.items() if isinstance(answer, ApplianceError)}
    for host, answer in refusals.items():
        text = "every control host takes part in a restore, so nothing was touched"
        hint = f"{answer.hint}; {GONE}" if 2 * len(refusals) > len(answers) else answer.hint
        raise ApplianceError(f"{answer.message}; {text}", hint, host)
    return {host: part for host, part in answers.items() if isinstance(part, Part)}


def under_way(parts: Mapping[str, Part]) -> Order:
    """The one restore that is. Raises ConfigError where there is none."""
    found = {part.order.id: part.order for part in parts.values() if part.order and part.is_open}
    if not found:
        raise ConfigError("no restore is under way", "appliance etcd list")
    if len(found) > 1:
        raise ApplianceError(
            f"restores of {' and '.join(order.backup for order in found.values())} are under way",
            "appliance etcd abandon takes them back",
        )
    return next(iter(found.values()))


def carry_out(session: Session, order: Order, source: str, parts: Mapping[str, Part]) -> None:
    """The restore, on from where it is. ``source``: the host that has the backup, "" where none needs it any more.

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
            text = f"{error.message}; nothing was touched"
            raise ApplianceError(text, error.hint, error.host) from None
        _tell(session, f"the state of {order.backup} is ready on {', '.join(hosts)}")
    for step, text in STEPS.items():
        try:
            _step(session, order, hosts, step)
        except ApplianceError as error:
            raise ApplianceError(error.message, WAYS, error.host) from None
        _tell(session, text.format(order.id))
    _refresh(session, hosts)
    _step(session, order, hosts, "finish")


def take_back(session: Session, answers: Mapping[str, Part | ApplianceError]) -> Order:
    """The state before the restore that is under way, on every host that answers, if these are most. Raises ApplianceError."""
    parts = {host: part for host, part in answers.items() if isinstance(part, Part)}
    silent = [host for host in answers if host not in parts]
    if len(parts) <= len(silent):
        error = next(answer for answer in answers.values() if isinstance(answer, ApplianceError))
        text = f"most of etcd's members must go back together, and {', '.join(silent)} do not answer: {error.told_of()}"
        raise ApplianceError(text, error.hint)
    order = under_way(parts)
    if through := [
        host for host, part in parts.items() if part.has_begun(order) and not part.is_open
    ]:
        raise ApplianceError(
            f"the restore is through on {', '.join(through)}",
            f"appliance etcd restore {order.backup} brings it to its end",
        )
    _on(session, parts, lambda host: program(session, host, RESTORE, "back", seconds=STEP_SECONDS))
    for host in silent:
        text = "did not answer: appliance etcd abandon again once it is back"
        session.tell(Message(text=text, level="warning", host=host))
    return order


def _step(session: Session, order: Order, hosts: Sequence[str], step: str) -> None:
    def take(host: str) -> str:
        return program(session, host, RESTORE, step, seconds=STEP_SECONDS, content=order.line)

    _on(session, hosts, take)


def _copy(session: Session, order: Order, source: str, hosts: Sequence[str]) -> None:
    """Part by part through here: control hosts do not log in to each other."""
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
            text = (
                f"{error.message}; restart kubelet there once it is back: it holds what it saw last"
            )
            session.tell(Message(text=text, level="warning", host=host.name))


def _best_effort(session: Session, hosts: Sequence[str]) -> None:
    try:
        _on(session, hosts, lambda host: program(session, host, RESTORE, "back"))
    except ApplianceError as error:
        text = f"{error.message}; appliance etcd abandon clears up there"
        session.tell(Message(text=text, level="warning", host=error.host or ""))


def _on(
    session: Session, hosts: Sequence[str] | Mapping[str, Part], work: Callable[[str], str]
) -> None:
    """The work on all hosts side by side; then raises ApplianceError where one failed, naming each."""

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


def _tell(session: Session, text: str) -> None:
    session.tell(Message(text=text))
