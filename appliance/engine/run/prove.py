"""Proves a stage on a host: facts gathered after its playbook, the stage's checks on them, and then the receipt."""

import threading
import time
from dataclasses import dataclass

from appliance.checks.check import HostCheck, View
from appliance.engine.look.gather import Unanswered, ask
from appliance.engine.look.judge import judge_host
from appliance.engine.look.probe_requests import request_for
from appliance.engine.plan.prepare import Prepared
from appliance.engine.run.desired_state import Managed, deviations, unrepaired_drift
from appliance.engine.run.diagnose import Diagnosis, diagnose
from appliance.engine.run.receipts import remove_receipts, state_request, write_receipt
from appliance.engine.session import Session
from appliance.errors import ApplianceError
from appliance.models.facts import HostFacts
from appliance.models.result import CheckResult, Status
from appliance.stages.base.checks.room import is_of_room
from appliance.stages.catalog import CHECKS, STAGES
from appliance.stages.stage import Stage

MUST_KNOW = frozenset(c.id for c in CHECKS if isinstance(c, HostCheck) and c.must_know)


class SettleClock:
    """Whether the stage's playbook has ended on all hosts: only then does the settling time of a proof begin."""

    def __init__(self, settles: float) -> None:
        self._settles = settles
        self._over = threading.Event()
        self._since = 0.0

    def end(self) -> None:
        """Mark it as ended."""
        self._since = time.monotonic()
        self._over.set()

    def pause(self, cancelled: threading.Event) -> None:
        """Wait before the next check: long while other hosts are running, but no longer than until they end."""
        if self._over.is_set():
            cancelled.wait(1.0)
        else:
            self._over.wait(5.0)

    @property
    def settled(self) -> bool:
        """Return whether the settling time is over, too."""
        return self._over.is_set() and time.monotonic() >= self._since + self._settles


@dataclass(frozen=True)
class Proof:
    """Facts gathered after the playbook, and the results of the stage's checks. ``lasts``: waiting will not help."""

    facts: HostFacts | None
    results: tuple[CheckResult, ...]
    problem: Diagnosis | None
    lasts: bool = False


def prove(
    session: Session,
    stage: Stage,
    host: str,
    managed: Managed,
    prepared: Prepared,
    peers: SettleClock,
) -> Proof:
    """Gather fresh facts until the checks pass or the settling time is over; then write the host's receipt.

    ``managed``: what the playbook manages there.
    """
    while (proof := _look(session, stage, host, managed, prepared)).problem:
        if proof.lasts or peers.settled or session.cancelled.is_set():
            return proof
        peers.pause(session.cancelled)
    return _receipted(session, stage, proof, prepared)


def _look(session: Session, stage: Stage, host: str, managed: Managed, prepared: Prepared) -> Proof:
    request = request_for(session, host) | {"resources": state_request(managed)}
    facts = ask(session.remote, host, request)
    if isinstance(facts, Unanswered):
        return Proof(None, (), Diagnosis(facts.cause, facts.fix, facts.away))
    view = View(session.profile, session.site, {host: _as_applied(facts, stage.name, prepared)})
    one = session.site.host(host)
    is_judged = stage.checks_removal or not stage.is_removal(session.site, one, facts)
    results = tuple(judge_host(view, one, stage.checks)) if is_judged else ()
    bad = next((r for r in results if _is_open(r)), None)
    problem = Diagnosis(f"{bad.id}: {bad.cause}", bad.fix) if bad else None
    astray = deviations(facts, managed) or unrepaired_drift(facts, stage.name, managed, prepared)
    lasts = any(map(is_of_room, results)) or (not problem and astray is not None)
    return Proof(facts, results, problem or astray, lasts=lasts)


def _as_applied(facts: HostFacts, stage: str, prepared: Prepared) -> HostFacts:
    """Without the drift from a receipt with other inputs: the stage has just made these differences."""
    receipt = facts.receipts.get(stage)
    if receipt is None or receipt.fingerprint == prepared.fingerprint:
        return facts
    settled = receipt.model_copy(update={"drift": ()})
    return facts.model_copy(update={"receipts": {**facts.receipts, stage: settled}})


def _is_open(result: CheckResult) -> bool:
    """Whether the stage is not proved by this result."""
    unknown = result.status is Status.NOT_ASSESSED and result.id in MUST_KNOW
    return unknown or result.status in {Status.FAIL, Status.ERROR}


def _receipted(session: Session, stage: Stage, proof: Proof, prepared: Prepared) -> Proof:
    if proof.problem or proof.facts is None:
        return proof
    host = session.site.host(proof.facts.host)
    try:
        if stage.is_removal(session.site, host, proof.facts):
            gone = [stage, *(s for s in STAGES if s.within is stage)]
            remove_receipts(session.remote, host.name, [s.name for s in gone])
        else:
            write_receipt(session.remote, session.run, stage.name, prepared, proof.facts)
    except ApplianceError as error:
        found = diagnose(proof.facts.host, "", error.message)
        return Proof(proof.facts, proof.results, found)
    return proof
