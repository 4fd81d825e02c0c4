"""Proves a stage: facts taken after its playbook, the stage's checks on them, and then the receipt."""

import time
from collections.abc import Mapping
from dataclasses import dataclass

from appliance.checks.check import View
from appliance.engine.diagnose import Diagnosis, diagnose
from appliance.engine.gather import Round, gather
from appliance.engine.judge import judge_host
from appliance.engine.planning import Preparation
from appliance.engine.receipts import wanted, write_receipt
from appliance.engine.requests import request_for
from appliance.engine.session import Session
from appliance.errors import ApplianceError
from appliance.models.facts import HostFacts
from appliance.models.result import CheckResult, Status
from appliance.stages.stage import Stage

SETTLE = 30.0
"""Seconds a service may take after its start until the stage's checks must pass."""

Managed = Mapping[tuple[str, str], object]
"""The (kind, name) pairs of resources a playbook reported on one host."""


@dataclass(frozen=True)
class Proof:
    """Facts taken after the playbook, and what the stage's checks made of them."""

    facts: HostFacts | None
    results: tuple[CheckResult, ...]
    problem: Diagnosis | None


def prove(
    session: Session,
    stage: Stage,
    managed: Mapping[str, Managed],
    prepared: Preparation,
) -> dict[str, Proof]:
    """Asks for fresh facts until the checks pass or the settling time is over; then writes receipts.

    ``managed``: what each host's playbook manages there.
    """
    deadline = time.monotonic() + SETTLE
    proofs: dict[str, Proof] = {}
    open_hosts = list(managed)
    while open_hosts:
        requests = {
            h: request_for(session, h) | {"resources": wanted(managed[h])} for h in open_hosts
        }
        found = gather(session.remote, requests)
        proofs |= {h: _judge(session, stage, h, found) for h in open_hosts}
        open_hosts = [h for h in open_hosts if proofs[h].problem]
        if time.monotonic() > deadline or session.cancelled.is_set():
            break
        if open_hosts:
            time.sleep(1.0)
    return {h: _receipted(session, stage, proofs[h], prepared) for h in managed}


def _judge(session: Session, stage: Stage, host: str, found: Round) -> Proof:
    if host in found.unanswered:
        missing = found.unanswered[host]
        return Proof(None, (), Diagnosis(missing.cause, missing.fix))
    view = View(session.profile, session.site, found.facts)
    results = tuple(judge_host(view, session.site.host(host), stage.checks))
    bad = next((r for r in results if r.status in {Status.FAIL, Status.ERROR}), None)
    problem = Diagnosis(f"{bad.id}: {bad.cause}", bad.fix) if bad else None
    return Proof(found.facts[host], results, problem)


def _receipted(session: Session, stage: Stage, proof: Proof, prepared: Preparation) -> Proof:
    if proof.problem or proof.facts is None:
        return proof
    try:
        write_receipt(
            session.remote,
            session.run,
            stage.name,
            prepared[stage.name, proof.facts.host],
            proof.facts,
        )
    except ApplianceError as error:
        found = diagnose(proof.facts.host, "", error.message)
        return Proof(proof.facts, proof.results, found)
    return proof
