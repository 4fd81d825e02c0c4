"""Proves a stage on a host: facts taken after its playbook, the stage's checks on them, and then the receipt."""

import threading
import time
from dataclasses import dataclass

from appliance.checks.check import View
from appliance.engine.diagnose import Diagnosis, diagnose
from appliance.engine.gather import Unanswered, ask
from appliance.engine.judge import judge_host
from appliance.engine.prepare import Prepared
from appliance.engine.receipts import forget, wanted, write_receipt
from appliance.engine.requests import request_for
from appliance.engine.session import Session
from appliance.engine.wanted import Managed, still_adrift, unlike
from appliance.errors import ApplianceError
from appliance.models.facts import HostFacts
from appliance.models.result import CheckResult, Status
from appliance.stages.base.checks.room import is_of_room
from appliance.stages.stage import Stage


class SettleClock:
    """Whether the stage's playbook is over on all hosts: only then the settling time of a proof begins to run."""

    def __init__(self, settles: float) -> None:
        self._settles = settles
        self._over = threading.Event()
        self._since = 0.0

    def end(self) -> None:
        """It is over now."""
        self._since = time.monotonic()
        self._over.set()

    def pause(self, cancelled: threading.Event) -> None:
        """Waits before the next look: long while others are at work, and no longer than until they are through."""
        if self._over.is_set():
            cancelled.wait(1.0)
        else:
            self._over.wait(5.0)

    @property
    def settled(self) -> bool:
        """Whether the settling time is over, too."""
        return self._over.is_set() and time.monotonic() >= self._since + self._settles


@dataclass(frozen=True)
class Proof:
    """Facts taken after the playbook, and what the stage's checks made of them. ``lasts``: waiting will not help."""

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
    """Asks the host for fresh facts until the checks pass or the settling time is over; then writes its receipt.

    ``managed``: what the playbook manages there.
    """
    while (proof := _look(session, stage, host, managed, prepared)).problem:
        if proof.lasts or peers.settled or session.cancelled.is_set():
            return proof
        peers.pause(session.cancelled)
    return _receipted(session, stage, proof, prepared)


def _look(session: Session, stage: Stage, host: str, managed: Managed, prepared: Prepared) -> Proof:
    request = request_for(session, host) | {"resources": wanted(managed)}
    facts = ask(session.remote, host, request)
    if isinstance(facts, Unanswered):
        return Proof(None, (), Diagnosis(facts.cause, facts.fix, facts.away))
    view = View(session.profile, session.site, {host: facts})
    results = tuple(judge_host(view, session.site.host(host), stage.checks))
    bad = next((r for r in results if r.status in {Status.FAIL, Status.ERROR}), None)
    problem = Diagnosis(f"{bad.id}: {bad.cause}", bad.fix) if bad else None
    astray = unlike(facts, managed) or still_adrift(facts, stage.name, managed, prepared)
    lasts = any(map(is_of_room, results)) or (not problem and astray is not None)
    return Proof(facts, results, problem or astray, lasts=lasts)


def _receipted(session: Session, stage: Stage, proof: Proof, prepared: Prepared) -> Proof:
    if proof.problem or proof.facts is None:
        return proof
    host = session.site.host(proof.facts.host)
    try:
        if stage.is_removal(session.site, host, proof.facts):
            forget(session.remote, host.name, stage.name)
        else:
            write_receipt(session.remote, session.run, stage.name, prepared, proof.facts)
    except ApplianceError as error:
        found = diagnose(proof.facts.host, "", error.message)
        return Proof(proof.facts, proof.results, found)
    return proof
