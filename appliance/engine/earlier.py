"""What hosts answered before: the latest facts of those that are silent now, and older ones to compare counters with."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from pydantic import ValidationError

from appliance.engine.gather import Round
from appliance.engine.session import Session
from appliance.models.base import Model
from appliance.models.facts import HostFacts
from appliance.models.facts_fabric import Topology
from appliance.models.facts_kubernetes import Kubernetes
from appliance.models.site import Role

Kept = TypeVar("Kept", bound=Model)
LEAST_AGE = timedelta(minutes=1)
"""So old must a reading be that a counter's growth since then says something."""


def remember(session: Session, found: Round) -> None:
    """Keeps a round in the journal."""
    for name, facts in found.facts.items():
        session.journal.append(session.run, "facts", host=name, facts=facts.model_dump(mode="json"))
        _remember_topology(session, name, facts)
        _remember_release(session, name, facts)
    for name, missing in found.unanswered.items():
        session.journal.append(session.run, "unanswered", host=name, cause=missing.cause)


def known_facts(session: Session, found: Round) -> Mapping[str, HostFacts]:
    """What role variables are made from: a host that is silent keeps its last answer.

    One that cannot discover the fabric just now keeps what it discovered last: an outage is no new topology. Nor has
    kubelet another release because a busy host did not tell it in time.
    """
    silent = [h.name for h in session.site.hosts if h.name not in found.facts]
    known = {name: _last(session, name) for name in silent}
    latest = {name: facts for name, facts in known.items() if facts} | dict(found.facts)
    return {
        name: _with_release(session, name, _with_topology(session, name, facts))
        for name, facts in latest.items()
    }


def earlier_facts(session: Session) -> dict[str, HostFacts]:
    """Per host the newest facts that are older than LEAST_AGE; none where there are none."""
    until = datetime.now(UTC) - LEAST_AGE
    known = {h.name: _last(session, h.name, until) for h in session.site.hosts}
    return {name: facts for name, facts in known.items() if facts}


def facts_at(session: Session, host: str, until: datetime | None = None) -> HostFacts | None:
    """The newest facts of a host, no younger than ``until``; None where there are none."""
    return _last(session, host, until)


def _remember_topology(session: Session, host: str, facts: HostFacts) -> None:
    if facts.topology is None:
        return
    found = facts.topology.model_dump(mode="json")
    before = session.journal.last("topology", host=host)
    if before is None or before.data["topology"] != found:
        session.journal.append(session.run, "topology", host=host, topology=found)


def _with_topology(session: Session, host: str, facts: HostFacts) -> HostFacts:
    if facts.topology or Role.CONTROL not in session.site.host(host).roles:
        return facts
    entry = session.journal.last("topology", host=host)
    found = _read(Topology, entry.data.get("topology")) if entry else None
    return facts.model_copy(update={"topology": found}) if found else facts


def _remember_release(session: Session, host: str, facts: HostFacts) -> None:
    if facts.kubernetes is None or not facts.kubernetes.version:
        return
    found = facts.kubernetes.version
    before = session.journal.last("kubernetes_release", host=host)
    if before is None or before.data["version"] != found:
        session.journal.append(session.run, "kubernetes_release", host=host, version=found)


def _with_release(session: Session, host: str, facts: HostFacts) -> HostFacts:
    if facts.kubernetes or "kubernetes" not in facts.errors:
        return facts
    entry = session.journal.last("kubernetes_release", host=host)
    if entry is None:
        return facts
    last = Kubernetes(version=str(entry.data.get("version", "")))
    return facts.model_copy(update={"kubernetes": last})


def _last(session: Session, host: str, until: datetime | None = None) -> HostFacts | None:
    entry = session.journal.last("facts", host=host, until=until)
    return _read(HostFacts, entry.data.get("facts")) if entry else None


def _read(model: type[Kept], kept: object) -> Kept | None:
    """None for what another version wrote, which knew other facts, or others than may stand in one."""
    try:
        return model.model_validate(kept)
    except ValidationError:
        return None
