"""Accepted facts of each host: stored in the journal when a deployment proves the host, and compared with every later answer."""

from collections.abc import Iterable, Mapping

from pydantic import ValidationError

from appliance.engine.look.shared_encoding import decoded_facts, encoded_facts
from appliance.engine.look.shared_facts import shareable_facts
from appliance.engine.session import Session
from appliance.journal import Entry, New
from appliance.models.facts import HostFacts
from appliance.models.run import StageOutcome, StageState
from appliance.models.shared_facts import SharedFacts

ACCEPTED = "accepted"
LEARNS = ("slurm", "fabric", "base")
"""Stages whose completion proves a host in a journal without entries of this kind; the first one counts."""
FINISHED = {StageState.DONE, StageState.SKIPPED}


def shared_facts_of(session: Session, said: Mapping[str, HostFacts]) -> SharedFacts:
    """Return the facts that may reach other hosts, from these answers and what was accepted of them."""
    return shareable_facts(
        session.profile, session.site, said, accepted_facts(session), session.accepting
    )


def accepted_facts(session: Session) -> dict[str, HostFacts]:
    """Return the accepted facts by host for the class deployed now; those of another class do not count."""
    found = {e.host: e for e in session.journal.last_of_each(ACCEPTED)}
    known: dict[str, HostFacts] = {}
    for host in session.site.hosts:
        entry = found.get(host.name)
        if entry is None:
            facts = _before_these_entries(session, host.name)
        elif entry.data.get("profile") == session.profile_of(host.name).name:
            facts = decoded_facts(host.name, entry.data.get("facts"))
        else:
            facts = None
        if facts:
            known[host.name] = facts
    return known


def record_accepted(
    session: Session, said: Mapping[str, HostFacts], outcomes: Iterable[StageOutcome]
) -> None:
    """Store hosts that completed this deployment without a contradiction and those that the operator accepted; return the changes."""
    failed = {o.host for o in outcomes if o.state not in FINISHED}
    before = accepted_facts(session)
    now = shareable_facts(session.profile, session.site, said, before, session.accepting)
    proved = {n for n in now.facts if n in said and said[n].receipts and n not in failed}
    entries = [
        New(
            ACCEPTED, {"profile": session.profile_of(name).name, "facts": said_to_others}, host=name
        )
        for name in now.facts
        if name in (proved | session.accepting) and not now.contradictions.get(name)
        if (said_to_others := encoded_facts(now.facts[name]))
        != (encoded_facts(before[name]) if name in before else None)
    ]
    if entries:
        session.journal.append_all(session.run, entries)


def accept_undivided_gpus(session: Session, hosts: Iterable[str]) -> None:
    """Record that the operator undivided the GPUs of these hosts, although the site does not declare it."""
    known = accepted_facts(session)
    entries = [
        New(
            ACCEPTED,
            {"profile": session.profile_of(name).name, "facts": encoded_facts(facts)},
            host=name,
        )
        for name in hosts
        if name in known and known[name].gpus
        for facts in [known[name].model_copy(update={"gpus": None})]
    ]
    if entries:
        session.journal.append_all(session.run, entries)


def _before_these_entries(session: Session, host: str) -> HostFacts | None:
    """Return the facts of a host at its last finished stage, of a deployment by an earlier version."""
    done = _last_done(session, host)
    if done is None:
        return None
    started = session.journal.last("run_started", run=done.run)
    if started is None or started.data.get("profile") != session.profile_of(host).name:
        return None
    entry = session.journal.last("facts", host=host, seq=done.seq)
    facts = _read(entry.data.get("facts")) if entry else None
    if facts is None:
        return None
    # Only what could have reached other hosts, within the limits of the class.
    return shareable_facts(session.profile, session.site, {host: facts}).facts.get(host)


def _last_done(session: Session, host: str) -> Entry | None:
    found = (session.journal.last("host_done", stage=stage, host=host) for stage in LEARNS)
    return next((entry for entry in found if entry), None)


def _read(kept: object) -> HostFacts | None:
    try:
        return HostFacts.model_validate(kept, extra="ignore")
    except ValidationError:
        return None
