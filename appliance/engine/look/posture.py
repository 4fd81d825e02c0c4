"""What hosts hold outside the stages: stored in the journal when it changes, and compared with another day."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from pydantic import ValidationError

from appliance.engine.look.gather import Round
from appliance.engine.session import Session
from appliance.journal import New
from appliance.models.facts import HostFacts, Posture
from appliance.models.handover import Difference
from appliance.models.site import Host
from appliance.probe.every_file import is_update
from appliance.probe.keys import retold
from appliance.probe.posture import DEEP
from appliance.stages.base.checks.foreign import ACCOUNTS, unexpected_entries
from appliance.stages.base.people import CRONTABS, is_for_jobs

KINDS = {"posture": False, "posture_deep": True}
"""Kinds of journal entries, and whether they hold the results of reading every file."""
ACCEPTED = "baseline"
"""Kind of the entry that accepts hosts as they are, data ``{"reason", "by", "hosts"}``."""
HANDOVER = "handover"
"""Kind of the entry of a hand-over."""
PACKAGE, KEY = "package", "key"
UNNAMED = {"package file": "as in its package", "file mode": "as usual"}
"""By kind, the state of items that are not listed."""


@dataclass(frozen=True)
class Day:
    """The other side of a comparison: up to a journal entry, or a time."""

    seq: int | None = None
    until: datetime | None = None


def keep_postures(session: Session, found: Round) -> None:
    """Store the posture of hosts where it differs from the one stored last."""
    session.journal.append_all(session.run, _entries(session, found))


def _entries(session: Session, found: Round) -> Iterator[New]:
    for name, facts in found.facts.items():
        for kind, deep in KINDS.items():
            data = _data(_safe(session, facts.posture), deep=deep)
            last = session.journal.last(kind, host=name)
            if data and (last is None or last.data != data):
                yield New(kind, data, host=name)


def _safe(session: Session, posture: Posture | None) -> Posture | None:
    """Remove the site's secrets, and write keys in today's form."""
    if posture is None:
        return None
    things = dict(posture.things)
    if KEY in things:
        things[KEY] = retold(dict(things[KEY]))
    safe = {"things": things, "owned": posture.owned}
    return posture.model_copy(update=session.redact.texts(safe))


def _data(posture: Posture | None, *, deep: bool) -> dict[str, object]:
    if posture is None:
        return {}
    things = {kind: t for kind, t in posture.things.items() if (kind in DEEP) is deep}
    return {"things": things, "owned": list(posture.owned)} if things else {}


def posture_of(session: Session, host: str, day: Day) -> Posture | None:
    """Return the host's posture last stored until then; None if there is none, or another version wrote it."""
    parts = []
    for kind in KINDS:
        entry = session.journal.last(kind, host=host, seq=day.seq, until=day.until)
        try:
            parts += [Posture.model_validate(entry.data)] if entry else []
        except ValidationError:
            return None
    if not parts:
        return None
    things = {kind: t for part in parts for kind, t in part.things.items()}
    kept = Posture(things=things, owned=tuple({o for part in parts for o in part.owned}))
    return _safe(session, kept)


def accepted_day(session: Session) -> Day:
    """Return when the hosts were last accepted, by a hand-over or by ``appliance baseline accept``."""
    taken = [entry.seq for kind in (HANDOVER, ACCEPTED) if (entry := session.journal.last(kind))]
    return Day(seq=max(taken, default=0))


def taken_files(session: Session, found: Round) -> dict[str, Mapping[str, Mapping[str, str]]]:
    """Return every file as it was last accepted, of hosts whose own check found a change."""
    day = accepted_day(session)
    hosts = [name for name, facts in found.facts.items() if facts.weekly and facts.weekly.changes]
    kept = {name: posture_of(session, name, day) for name in hosts}
    return {
        name: {kind: things for kind, things in posture.things.items() if kind in DEEP}
        for name, posture in kept.items()
        if posture is not None
    }


def posture_differences(
    session: Session, day: Day, answered: Mapping[str, HostFacts]
) -> Iterator[Difference]:
    """Yield what was added, removed and changed on hosts that answered, except what stages and base.foreign report."""
    for host in session.site.hosts:
        facts = answered.get(host.name)
        if facts is None:
            continue
        then, now = posture_of(session, host.name, day), _safe(session, facts.posture)
        if now is None:
            why = facts.gap("posture", "not asked").text
            yield _unknown(host.name, f"unmanaged accounts, packages and files are unknown: {why}")
        elif then is None:
            yield _unknown(
                host.name, "unmanaged accounts, packages and files were not recorded then"
            )
        else:
            left_out = {
                *_described_changes(session, facts),
                *then.owned,
                *now.owned,
                *_of_users(session, host),
            }
            left_out -= set(_updated(facts, then, now))
            unread = _unread(facts)
            yield from (_unknown(host.name, line) for line in unread)
            yield from _between(host.name, then, now, frozenset(left_out), unread)


def _unread(facts: HostFacts) -> tuple[str, ...]:
    """Report what the host itself could not read or left out."""
    return tuple(line for line in facts.errors.get("posture", "").split("; ") if line)


def _updated(facts: HostFacts, then: Posture, now: Posture) -> Iterator[str]:
    """Return packages present on both days that no stage reports as drift: only this shows their new version."""
    drifted = {d.name for r in facts.receipts.values() for d in r.drift if d.kind == PACKAGE}
    was, is_now = (day.things.get(PACKAGE) or {} for day in (then, now))
    yield from (f"{PACKAGE} {name}" for name in was.keys() & is_now.keys() - drifted)


def _described_changes(session: Session, facts: HostFacts) -> Iterator[str]:
    """Return what base.foreign reports of the host."""
    for found in unexpected_entries(session.site, facts):
        yield f"account {found.at}" if found.kind in ACCOUNTS else found.at
        if found.kind == "key":
            yield from (w for w in found.line.split() if w.startswith("SHA256:"))


def _of_users(session: Session, host: Host) -> Iterator[str]:
    """Return crontabs that belong to their owners alone."""
    if not is_for_jobs(host):
        for user in session.site.base.users:
            yield from (f"{folder}/{user.name}" for folder in CRONTABS)


def _between(
    host: str, then: Posture, now: Posture, left_out: frozenset[str], unread: Sequence[str] = ()
) -> Iterator[Difference]:
    for kind in sorted(now.things.keys() | then.things.keys()):
        was, is_now = then.things.get(kind), now.things.get(kind)
        if is_now is None:
            if kind not in DEEP and not any(line.startswith(f"{kind}: ") for line in unread):
                yield _unknown(host, f"each {kind} could not be read")
        elif was is None:
            yield _unknown(host, f"each {kind} was not recorded then")
        else:
            for name in sorted(was.keys() | is_now.keys()):
                # An item without content is reported as "", which differs from an absent one.
                if was.get(name) == is_now.get(name) or _is_left_out(kind, name, left_out):
                    continue
                if not is_update(kind, was.get(name, ""), is_now.get(name, "")):
                    yield Difference(
                        host=host,
                        what=f"{kind} {name}",
                        then=was.get(name, UNNAMED.get(kind, "")),
                        now=is_now.get(name, UNNAMED.get(kind, "")),
                    )


def _is_left_out(kind: str, name: str, left_out: frozenset[str]) -> bool:
    if kind == "key":
        key, _, account = name.partition(" of ")
        return key in left_out or f"account {account}" in left_out
    return name in left_out or f"{kind} {name}" in left_out


def _unknown(host: str, why: str) -> Difference:
    return Difference(host=host, what=why, known=False)
