"""What hosts answered before: the latest facts of those that are silent now, and older ones to compare counters with."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from pydantic import ValidationError

from appliance.engine.gather import Round
from appliance.engine.session import Session
from appliance.models.facts import HostFacts

LEAST_AGE = timedelta(minutes=1)
"""So old must a reading be that a counter's growth since then says something."""


def remember(session: Session, found: Round) -> None:
    """Keeps a round in the journal."""
    for name, facts in found.facts.items():
        session.journal.append(session.run, "facts", host=name, facts=facts.model_dump(mode="json"))
    for name, missing in found.unanswered.items():
        session.journal.append(session.run, "unanswered", host=name, cause=missing.cause)


def known_facts(session: Session, found: Round) -> Mapping[str, HostFacts]:
    """The latest facts of every host: one that is silent keeps its last answer."""
    silent = [h.name for h in session.site.hosts if h.name not in found.facts]
    known = {name: _last(session, name) for name in silent}
    return {name: facts for name, facts in known.items() if facts} | dict(found.facts)


def earlier_facts(session: Session) -> dict[str, HostFacts]:
    """Per host the newest facts that are older than LEAST_AGE; none where there are none."""
    until = datetime.now(UTC) - LEAST_AGE
    known = {h.name: _last(session, h.name, until) for h in session.site.hosts}
    return {name: facts for name, facts in known.items() if facts}


def _last(session: Session, host: str, until: datetime | None = None) -> HostFacts | None:
    entry = session.journal.last("facts", host=host, until=until)
    if entry is None:
        return None
    try:
        return HostFacts.model_validate(entry.data["facts"])
    except ValidationError:
        return None  # written by another version, which knew other facts
