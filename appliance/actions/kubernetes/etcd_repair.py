"""Etcd that is full: compacts, defragments, lists what fills it, and deletes it on request."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from appliance.actions.kubernetes.etcd_backups import VERB, control_names, own_cluster
from appliance.actions.kubernetes.etcd_members import REPAIR, STEP_SECONDS, answer, program
from appliance.actions.sites.interrupts import interruptible
from appliance.actions.sites.opening import Target, open_session
from appliance.engine.look.gather import each
from appliance.engine.run.lease import leased
from appliance.engine.session import Session
from appliance.errors import ApplianceError, ConfigError
from appliance.models.events import Message, Observer
from appliance.models.fact_types import Count
from appliance.stages.kubernetes.charts import charts as of_cluster
from appliance.stages.scheduler.queues.charts import charts
from appliance.stages.workloads.releases import releases
from appliance.text import first_few

OBJECTS = re.compile(
    r"(?P<namespace>[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)/(?P<kind>[a-z][a-z0-9.-]{0,252})"
)
SYSTEM = re.compile(r"default|kube-.*|appliance-.*")
KEPT = frozenset(
    (
        "limitranges",
        "persistentvolumeclaims",
        "resourcequotas",
        "rolebindings",
        "roles",
        "serviceaccounts",
    )
)
"""Data or permissions depend on them."""
ENOUGH, AMPLE = 0.9, 0.8
"""Fractions of the quota: above the first, the alarm is not cleared, because it would return at once; from the second on,
health warns."""
WORTH = 0.05
"""Fraction of the quota above which a delete command is proposed."""
ROUNDS = 2
"""The API server may compact at the same time; then a second round frees pages that the first one left."""
NAMED = 3
PAGE = "docs/kubernetes.md, etcd is full"

Bytes = Annotated[int, Field(gt=0, le=2**62)]


@dataclass(frozen=True)
class Member:
    """A member of etcd: bytes of its database, those in use, its quota; whether it leads."""

    bytes: Count
    in_use: Count
    quota: Bytes
    revision: Count
    leads: bool
    alarms: tuple[str, ...]

    @property
    def share(self) -> float:
        """Fraction of its quota."""
        return self.bytes / self.quota

    def __str__(self) -> str:
        alarms = f", alarm {' and '.join(self.alarms)}" if self.alarms else ""
        return f"{size_text(self.bytes)} of {size_text(self.quota)}, {size_text(self.in_use)} in use{alarms}"


@dataclass(frozen=True)
class Group:
    """Objects of one kind in one namespace ("" for none), as read by a host."""

    namespace: str
    kind: str
    count: Count
    bytes: Count

    @property
    def objects(self) -> str:
        """In the notation of ``--delete``."""
        return f"{self.namespace}/{self.kind}"

    def __str__(self) -> str:
        where = f" of namespace {self.namespace}" if self.namespace else ""
        return f"{self.count} {self.kind}{where}: {size_text(self.bytes)}"


@dataclass(frozen=True)
class Largest:
    """The groups with the most bytes; ``complete``: all of etcd was read in time."""

    groups: tuple[Group, ...]
    complete: bool


@dataclass(frozen=True)
class ObjectsLeft:
    """The number of objects, and why some remain."""

    count: Count
    why: str = ""


@dataclass(frozen=True)
class Repair:
    """What is about to be done, for the confirmation. ``delete``: NAMESPACE/KIND, "" for nothing; ``count``: how many of these."""

    members: Mapping[str, Member]
    delete: str = ""
    count: int = 0


def repair(
    target: Target, delete: str, observer: Observer, consent: Callable[[Repair], bool]
) -> bool:
    """Frees space on every member of etcd; False if the user declined.

    Raises ConfigError if ``delete`` names protected objects, ApplianceError if a control host does not answer or etcd is still nearly full.
    """
    with open_session(target, VERB, observer) as session:
        if not consent(_considered(session, delete)):
            return False
    with (
        open_session(target, VERB, observer, changes=True) as session,
        interruptible(session),
        leased(session, control_names(session)),
    ):
        try:
            _repaired(session, delete)
        except ApplianceError as error:
            if session.cancelled.is_set():
                raise KeyboardInterrupt from error
            raise
    return True


def size_text(size: int) -> str:
    """For people."""
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"


def _considered(session: Session, delete: str) -> Repair:
    """What is to be done; raises ApplianceError if it must not be."""
    own_cluster(session)
    if delete and not _may_go(session, delete):
        raise ConfigError(
            f"--delete {delete} is not accepted: write NAMESPACE/KIND; the cluster's own objects, and kinds that data or permissions depend on, are protected",
            "appliance etcd repair lists what uses the most space",
        )
    members = _members(session)
    if others := sorted({a for member in members.values() for a in member.alarms} - {"NOSPACE"}):
        text = f"etcd has raised {' and '.join(others)}, which more space does not fix"
        raise ApplianceError(text, "appliance etcd list, then appliance etcd restore")
    first = next(iter(members))
    count = answer(session, first, ObjectsLeft, REPAIR, "count", delete).count if delete else 0
    return Repair(members, delete, count)


def _may_go(session: Session, objects: str) -> bool:
    found = OBJECTS.fullmatch(objects)
    own = {chart.namespace for chart in (*of_cluster().values(), *charts().values())}
    own |= {release.namespace for release in releases(session.site)}
    return (
        found is not None
        and not SYSTEM.fullmatch(found["namespace"])
        and found["namespace"] not in own
        and found["kind"] not in KEPT
    )


def _members(session: Session) -> dict[str, Member]:
    """Every control host's member. Raises ApplianceError: if one is down, etcd may need the member that is being defragmented."""

    def look(host: str) -> Member | ApplianceError:
        try:
            return answer(session, host, Member, REPAIR, "look")
        except ApplianceError as error:
            return error

    found = dict(each(control_names(session), look))
    for host, said in found.items():
        if isinstance(said, ApplianceError):
            text = f"{said.message}; a repair needs every control host"
            raise ApplianceError(text, said.hint, host)
    return {host: said for host, said in found.items() if isinstance(said, Member)}


def _repaired(session: Session, delete: str) -> None:
    wanted = _considered(session, delete)
    session.journal.append(session.run, "run_started", verb=VERB)
    first, members = next(iter(wanted.members)), wanted.members
    if wanted.count:
        _delete(session, first, delete, wanted.count)
    for _ in range(ROUNDS):
        members = _free_space(session, members)
        if all(m.share < AMPLE or m.in_use > AMPLE * m.quota for m in members.values()):
            break
    share = max(member.share for member in members.values())
    is_full = any(member.alarms for member in members.values())
    if is_full and share < ENOUGH:
        program(session, first, REPAIR, "disarm", seconds=STEP_SECONDS)
        _report(session, "etcd accepts changes again")
    if share >= AMPLE:
        raise _still_full(session, first, members, is_full and share >= ENOUGH)
    session.journal.append(session.run, "repaired", deleted=delete)


def _free_space(session: Session, members: Mapping[str, Member]) -> dict[str, Member]:
    """Compacts once, defragments one by one; the leader last, so that etcd elects at most once."""
    program(session, next(iter(members)), REPAIR, "compact", seconds=STEP_SECONDS)
    for host in sorted(members, key=lambda host: members[host].leads):
        _unless_cancelled(session)
        program(session, host, REPAIR, "defragment", seconds=STEP_SECONDS)
        now = answer(session, host, Member, REPAIR, "look")
        _report(session, f"defragmented: {size_text(members[host].bytes)} before, {now}", host)
    return _members(session)


def _delete(session: Session, host: str, objects: str, count: int) -> None:
    left = ObjectsLeft(count)
    while left.count:
        _unless_cancelled(session)
        before = left.count
        left = answer(session, host, ObjectsLeft, REPAIR, "delete", objects, seconds=STEP_SECONDS)
        if left.count >= before:
            why = left.why or "new ones are created as fast as they are deleted"
            raise ApplianceError(f"{left.count} of {objects} remain: {why}", f"see {PAGE}", host)
        _report(session, f"deleted {before - left.count} of {objects}, {left.count} remain")


def _still_full(
    session: Session, host: str, members: Mapping[str, Member], refuses: bool
) -> ApplianceError:
    found = answer(session, host, Largest, REPAIR, "largest", seconds=STEP_SECONDS)
    for group in found.groups:
        _report(session, str(group))
    fullest = max(members.values(), key=lambda member: member.share)
    state = "still refuses changes" if refuses else "accepts changes, but is nearly full"
    partly = "" if found.complete else " (of what was read in time)"
    most = first_few([str(group) for group in found.groups], NAMED)
    text = f"etcd {state}: {fullest}; most of it is{partly} {most}"
    worth = [group for group in found.groups if group.bytes >= WORTH * fullest.quota]
    going = next((group.objects for group in worth if _may_go(session, group.objects)), "")
    hint = (
        f"appliance etcd repair --delete {going}"
        if going
        else f"delete what you do not need: {PAGE}"
    )
    return ApplianceError(text, hint)


def _unless_cancelled(session: Session) -> None:
    if session.cancelled.is_set():
        raise KeyboardInterrupt


def _report(session: Session, text: str, host: str = "") -> None:
    session.tell(Message(text=text, host=host))
