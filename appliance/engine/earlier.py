"""The reading before: facts old enough that a counter's growth since then says something."""

from datetime import UTC, datetime, timedelta

from pydantic import ValidationError

from appliance.engine.session import Session
from appliance.models.facts import HostFacts

LEAST_AGE = timedelta(minutes=1)


def earlier_facts(session: Session) -> dict[str, HostFacts]:
    """Per host the newest facts of the journal that are older than a minute; none where there are none."""
    known: dict[str, HostFacts] = {}
    until = datetime.now(UTC) - LEAST_AGE
    for host in session.site.hosts:
        entry = session.journal.last("facts", host=host.name, until=until)
        if entry is None:
            continue
        try:
            known[host.name] = HostFacts.model_validate(entry.data["facts"])
        except ValidationError:
            continue  # written by another version, which knew other facts
    return known
