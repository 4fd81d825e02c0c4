"""Earlier answers of hosts: the latest facts of hosts that do not answer now, and older ones to compare counters with."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from pydantic import ValidationError

from appliance.config.secrets import Redactor
from appliance.engine.look.gather import Round
from appliance.engine.session import Session
from appliance.journal import Entry, New
from appliance.models.base import Model
from appliance.models.facts import HostFacts
from appliance.models.line import Line
from appliance.models.site import Role
from appliance.stages.fabric.facts import Topology
from appliance.stages.kubernetes.facts import Kubernetes

Kept = TypeVar("Kept", bound=Model)
LEAST_AGE = timedelta(minutes=1)
"""Minimum age of a reading for a counter's growth since then to be meaningful."""


LOOKS = frozenset({"plan", "health"})
"""Read-only verbs. Only their newest facts are kept; facts of other verbs show how a site was deployed and accepted."""
KEPT = 10
"""Number of facts kept per host, whichever verb wrote them, in addition to those younger than LEAST_AGE."""


WORDS = ("foreign", "errors", "problems", "weekly", "xids")
"""Areas of facts that hold text from foreign files. Of other areas, digests and counters are compared with later ones."""


UNMISTAKABLE = 12
"""Characters. A secret of this length does not occur in a digest or counter by chance, so it is removed from every area."""


class KeptGpus(Model):
    """Yield the sorted UUIDs of a host's GPUs from one journal entry to the next."""

    uuids: tuple[Line, ...]


def store_facts(session: Session, found: Round) -> None:
    """Store a round in the journal, whole or not at all, and delete facts that are no longer needed."""
    session.journal.append_all(session.run, _entries(session, found))
    if session.verb in LOOKS:
        session.journal.forget_facts(datetime.now(UTC) - LEAST_AGE, KEPT)


def _entries(session: Session, found: Round) -> Iterator[New]:
    if session.verb in LOOKS:
        yield New("looked", {"verb": session.verb, "hosts": len(found.facts)})
    redact = unmistakable(session)
    for name, facts in found.facts.items():
        yield New("facts", {"facts": without_secrets(session, facts)}, host=name)
        for kind, said in _lasting(facts).items():
            data = redact.texts(said)
            before = session.journal.last(kind, host=name)
            if before is None or before.data != data:
                yield New(kind, data, host=name)
    for name, missing in found.unanswered.items():
        yield New("unanswered", {"cause": session.redact(missing.cause)}, host=name)


def unmistakable(session: Session) -> Redactor:
    """Return what removes the secrets that occur nowhere by chance."""
    return Redactor(s for s in session.secrets.values() if len(s) >= UNMISTAKABLE)


def without_secrets(session: Session, facts: HostFacts) -> dict[str, Any]:
    """Return facts as JSON, without secrets and without what is outside the stages."""
    kept = facts.model_dump(mode="json", exclude={"posture"})
    kept.update(session.redact.texts({area: kept[area] for area in WORDS}))
    for receipt in kept["receipts"].values():
        receipt["drift"] = session.redact.texts(receipt["drift"])
    return unmistakable(session).texts(kept)


def _lasting(facts: HostFacts) -> dict[str, dict[str, object]]:
    """Entries needed long afterwards, by kind; each is written when it changed."""
    lasting: dict[str, dict[str, object]] = {}
    if facts.topology is not None:
        lasting["topology"] = {"topology": facts.topology.model_dump(mode="json")}
    if facts.kubernetes is not None and facts.kubernetes.version:
        lasting["kubernetes_release"] = {"version": facts.kubernetes.version}
    if facts.gpus is not None:
        lasting["gpus"] = {"uuids": sorted(gpu.uuid for gpu in facts.gpus.devices)}
    return lasting


def known_facts(session: Session, found: Round) -> Mapping[str, HostFacts]:
    """Return the facts that role variables are made from: a host that does not answer keeps its last answer.

    A host that cannot discover the fabric now keeps its last discovery, because an outage is not a new topology.
    A busy host that did not report kubelet's release in time keeps that release.
    """
    silent = [h.name for h in session.site.hosts if h.name not in found.facts]
    known = {name: _last(session, name) for name in silent}
    latest = {name: facts for name, facts in known.items() if facts} | dict(found.facts)
    return {
        name: _with_release(session, name, _with_topology(session, name, facts))
        for name, facts in latest.items()
    }


def earlier_facts(session: Session) -> dict[str, HostFacts]:
    """Return per host the newest facts older than LEAST_AGE; hosts without any are left out."""
    known = {h.name: _read_entry(earlier_entry(session, h.name)) for h in session.site.hosts}
    return {name: facts for name, facts in known.items() if facts}


def earlier_entry(session: Session, host: str) -> Entry | None:
    """Return the journal's entry of these facts of a host."""
    return session.journal.last("facts", host=host, until=datetime.now(UTC) - LEAST_AGE)


def last_facts(session: Session, host: str) -> HostFacts | None:
    """Return the newest facts of a host, or None."""
    return _last(session, host)


def answered_last(session: Session) -> dict[str, datetime | None]:
    """Return when each host of the site last answered, or None."""
    entries = {h.name: session.journal.last("facts", host=h.name) for h in session.site.hosts}
    return {name: entry.time if entry else None for name, entry in entries.items()}


def silent_since(session: Session, host: str) -> str:
    """Return why a host did not answer the last request; "" if it did."""
    missing = session.journal.last("unanswered", host=host)
    facts = session.journal.last("facts", host=host)
    if missing is None or (facts and facts.seq > missing.seq):
        return ""
    return str(missing.data.get("cause") or "it did not answer")


def gpus_up_to(session: Session, host: str, seq: int) -> frozenset[str] | None:
    """Return the UUIDs of the GPUs that a host had reported up to this journal entry, or None."""
    entry = session.journal.last("gpus", host=host, seq=seq)
    if entry and (kept := _read(KeptGpus, entry.data)):
        return frozenset(kept.uuids)
    # A journal written by an older version holds facts only, and they are all kept.
    old = session.journal.last("facts", host=host, seq=seq)
    facts = _read(HostFacts, old.data.get("facts")) if old else None
    return frozenset(gpu.uuid for gpu in facts.gpus.devices) if facts and facts.gpus else None


def _with_topology(session: Session, host: str, facts: HostFacts) -> HostFacts:
    if facts.topology or Role.CONTROL not in session.site.host(host).roles:
        return facts
    entry = session.journal.last("topology", host=host)
    found = _read(Topology, entry.data.get("topology")) if entry else None
    return facts.model_copy(update={"topology": found}) if found else facts


def _with_release(session: Session, host: str, facts: HostFacts) -> HostFacts:
    if facts.kubernetes or "kubernetes" not in facts.errors:
        return facts
    entry = session.journal.last("kubernetes_release", host=host)
    if entry is None:
        return facts
    last = Kubernetes(version=str(entry.data.get("version", "")))
    return facts.model_copy(update={"kubernetes": last})


def _last(session: Session, host: str) -> HostFacts | None:
    return _read_entry(session.journal.last("facts", host=host))


def _read_entry(entry: Entry | None) -> HostFacts | None:
    return _read(HostFacts, entry.data.get("facts")) if entry else None


def _read(model: type[Kept], kept: object) -> Kept | None:
    """Read a stored answer. Fields of another version are ignored; None if a field is missing or invalid."""
    try:
        return model.model_validate(kept, extra="ignore")
    except ValidationError:
        return None
