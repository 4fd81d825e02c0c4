"""Baseline: the hosts as somebody took them, beside what stages own: who, when, why, and how many of each kind."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from appliance.actions.opening import Target, open_session
from appliance.engine.baseline import HANDOVER
from appliance.engine.posture import ACCEPTED, Day, accepted_day, keep_postures, posture_of
from appliance.engine.requests import Beside
from appliance.engine.session import Session
from appliance.engine.survey import survey
from appliance.engine.user import user_name
from appliance.errors import ConfigError
from appliance.models.events import Observer


@dataclass(frozen=True)
class Shown:
    """``kinds``: host -> kind -> how many; a host of which nothing was kept has none. ``silent``: why a host did not answer."""

    site: str
    time: datetime
    said: str
    kinds: Mapping[str, Mapping[str, int]]
    silent: Mapping[str, str]


def show(target: Target, observer: Observer) -> Shown:
    """What was taken last. Raises ConfigError where nothing was."""
    with open_session(target, "baseline", observer, only_looks=True, by_ssh=False) as session:
        return _shown(session, {})


def accept(target: Target, reason: str, observer: Observer) -> Shown:
    """Takes the hosts as they are now; one that does not answer stays as it was taken before."""
    if not reason.strip():
        raise ConfigError("--reason is empty", 'say why: --reason "new monitoring agent"')
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


def _shown(session: Session, silent: Mapping[str, str]) -> Shown:
    day = accepted_day(session)
    entries = [e for kind in (HANDOVER, ACCEPTED) if (e := session.journal.last(kind))]
    last = max(entries, key=lambda entry: entry.seq, default=None)
    if last is None:
        raise ConfigError(
            f"no baseline of site {session.site.name} is recorded",
            "take one: appliance baseline accept --reason TEXT; or hand it over: appliance accept",
        )
    said = "the hand-over"
    if last.kind == ACCEPTED:
        said = f"{last.data.get('by')}: {last.data.get('reason')}"
    kinds = {host.name: _counted(session, host.name, day.seq) for host in session.site.hosts}
    return Shown(session.site.name, last.time, said, kinds, silent)


def _counted(session: Session, host: str, seq: int | None) -> Mapping[str, int]:
    kept = posture_of(session, host, Day(seq=seq))
    return Counter({kind: len(things) for kind, things in kept.things.items()} if kept else {})
