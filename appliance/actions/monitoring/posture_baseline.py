"""Baseline: the accepted state of what no stage owns on the hosts: who, when, why, and how many items of each kind."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from appliance.actions.sites.opening import Target, open_session
from appliance.engine.look.posture import (
    ACCEPTED,
    HANDOVER,
    Day,
    accepted_day,
    keep_postures,
    posture_of,
)
from appliance.engine.look.probe_requests import Beside
from appliance.engine.look.survey import survey
from appliance.engine.session import Session
from appliance.engine.user import user_name
from appliance.errors import ConfigError
from appliance.models.events import Observer


@dataclass(frozen=True)
class BaselineSummary:
    """``kinds``: host -> kind -> count; a host without a record has none. ``silent``: why a host did not answer."""

    site: str
    time: datetime
    said: str
    kinds: Mapping[str, Mapping[str, int]]
    silent: Mapping[str, str]


def show(target: Target, observer: Observer) -> BaselineSummary:
    """The last baseline. Raises ConfigError if there is none."""
    with open_session(target, "baseline", observer, only_looks=True, by_ssh=False) as session:
        return _shown(session, {})


def accept(target: Target, reason: str, observer: Observer) -> BaselineSummary:
    """Records the current state of the hosts; one that does not answer keeps its earlier record."""
    if not reason.strip():
        raise ConfigError("--reason is empty", 'state why: --reason "new monitoring agent"')
    with open_session(target, "baseline", observer) as session:
        found = survey(session, beside=Beside.DEEP)
        keep_postures(session, found)
        unread = [name for name, facts in found.facts.items() if facts.posture is None]
        session.journal.append(
            session.run,
            ACCEPTED,
            reason=session.redact(reason),
            by=user_name(),
            hosts=[name for name in found.facts if name not in unread],
        )
        silent = {name: missing.cause for name, missing in found.unanswered.items()}
        silent |= {name: found.facts[name].gap("posture").text for name in unread}
        return _shown(session, silent)


def _shown(session: Session, silent: Mapping[str, str]) -> BaselineSummary:
    day = accepted_day(session)
    entries = [e for kind in (HANDOVER, ACCEPTED) if (e := session.journal.last(kind))]
    last = max(entries, key=lambda entry: entry.seq, default=None)
    if last is None:
        raise ConfigError(
            f"site {session.site.name} has no baseline",
            "record one: appliance baseline accept --reason TEXT; or hand the site over: appliance accept",
        )
    said = "the hand-over"
    if last.kind == ACCEPTED:
        said = f"{last.data.get('by')}: {last.data.get('reason')}"
    kinds = {host.name: _counted(session, host.name, day.seq) for host in session.site.hosts}
    return BaselineSummary(session.site.name, last.time, said, kinds, silent)


def _counted(session: Session, host: str, seq: int | None) -> Mapping[str, int]:
    kept = posture_of(session, host, Day(seq=seq))
    return Counter({kind: len(things) for kind, things in kept.things.items()} if kept else {})
