"""What was accepted of each host: kept in the journal when a deployment proved the host, and compared with every later answer."""

from collections.abc import Iterable, Mapping

from pydantic import ValidationError

from appliance.engine.session import Session
from appliance.engine.standing import standing
from appliance.engine.standing_kept import kept, read
from appliance.journal import Entry, New
from appliance.models.facts import HostFacts
from appliance.models.run import StageOutcome, StageState
from appliance.models.standing import Standing

ACCEPTED = "accepted"
LEARNS = ("slurm", "fabric", "base")
"""Stages of which a journal without entries of this kind tells that a host came through; the first that did counts."""
FINISHED = {StageState.DONE, StageState.SKIPPED}


def standing_of(session: Session, said: Mapping[str, HostFacts]) -> Standing:
    """What hosts may say to each other, by these answers and what was accepted of them."""
    return standing(session.profile, session.site, said, accepted(session), session.accepting)


def accepted(session: Session) -> dict[str, HostFacts]:
    """By host, for the class that is deployed now: what another class was given says nothing of this one."""
    found = {e.host: e for e in session.journal.last_of_each(ACCEPTED)}
    known: dict[str, HostFacts] = {}
    for host in session.site.hosts:
        entry = found.get(host.name)
        if entry is None:
            facts = _before_these_entries(session, host.name)
        elif entry.data.get("profile") == session.profile.name:
            facts = read(host.name, entry.data.get("facts"))
        else:
            facts = None
        if facts:
            known[host.name] = facts
    return known


def keep_accepted(
    session: Session, said: Mapping[str, HostFacts], outcomes: Iterable[StageOutcome]
) -> None:
    """Notes hosts that came through this deployment without a contradiction, and those the operator accepted; what changed."""
    failed = {o.host for o in outcomes if o.state not in FINISHED}
    before = accepted(session)
    now = standing(session.profile, session.site, said, before, session.accepting)
    proved = {n for n in now.facts if n in said and said[n].receipts and n not in failed}
    entries = [
        New(ACCEPTED, {"profile": session.profile.name, "facts": said_to_others}, host=name)
        for name in now.facts
        if name in (proved | session.accepting) and not now.contradictions.get(name)
        if (said_to_others := kept(now.facts[name]))
        != (kept(before[name]) if name in before else None)
    ]
    if entries:
        session.journal.append_all(session.run, entries)


def accept_whole(session: Session, hosts: Iterable[str]) -> None:
    """Notes that the operator had the GPUs of these hosts made whole, though the site says nothing of them."""
    known = accepted(session)
    entries = [
        New(ACCEPTED, {"profile": session.profile.name, "facts": kept(facts)}, host=name)
        for name in hosts
        if name in known and known[name].gpus
        for facts in [known[name].model_copy(update={"gpus": None})]
    ]
    if entries:
        session.journal.append_all(session.run, entries)


def _before_these_entries(session: Session, host: str) -> HostFacts | None:
    """What a host said when an earlier version deployed it: its facts at its last finished stage."""
    done = _last_done(session, host)
    if done is None:
        return None
    started = session.journal.last("run_started", run=done.run)
    if started is None or started.data.get("profile") != session.profile.name:
        return None
    entry = session.journal.last("facts", host=host, seq=done.seq)
    facts = _read(entry.data.get("facts")) if entry else None
    if facts is None:
        return None
    # Nothing but what could have reached others, within the bounds of the class.
    return standing(session.profile, session.site, {host: facts}).facts.get(host)


def _last_done(session: Session, host: str) -> Entry | None:
    found = (session.journal.last("host_done", stage=stage, host=host) for stage in LEARNS)
    return next((entry for entry in found if entry), None)


def _read(kept: object) -> HostFacts | None:
    try:
        return HostFacts.model_validate(kept, extra="ignore")
    except ValidationError:
        return None
