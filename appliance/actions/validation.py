"""The last stage of a deployment: the benchmarks, run when anything they rest on is new, else recalled."""

import hashlib
import json

from appliance import __version__
from appliance.actions.planned import Filters, Planned
from appliance.actions.validate import run_benchmarks
from appliance.benchmarks import OF_DEPLOYMENT
from appliance.checks.check import View
from appliance.engine.earlier import known_facts
from appliance.engine.gather import Round
from appliance.engine.prepare import prepare
from appliance.engine.record import Findings
from appliance.engine.session import Session
from appliance.journal import Entry
from appliance.models.plan import QUEUES, VALIDATE, Action, HostStage, Plan
from appliance.models.result import CheckResult, Measurement, Status, lacking
from appliance.models.run import StageOutcome, StageState, Table
from appliance.models.site import Role
from appliance.stages.catalog import STAGES

MINUTES = sum(benchmark.minutes for benchmark in OF_DEPLOYMENT)


def validate_cluster(
    session: Session,
    plan: Plan,
    view: View,
    found: Round,
    findings: Findings,
) -> None:
    """Runs the benchmarks where the plan says so and all else is whole; recalls them where nothing has changed."""
    cells = plan.by_stage(VALIDATE)
    if not cells:
        return
    if not any(c.action.changes for c in cells):
        _recall(session, findings)
        return
    failed = any(o.state in {StageState.FAILED, StageState.BLOCKED} for o in findings.outcomes)
    if found.unanswered or failed:
        why = "other stages have to be whole first"
        findings.outcomes += [
            StageOutcome(stage=VALIDATE, host=c.host, state=StageState.NOT_RUN, why=why)
            for c in cells
            if c.action is not Action.NOT_CONCERNED
        ]
        return
    hosts = [c.host for c in cells if c.action.changes]
    outcome, state, seconds = run_benchmarks(session, view, hosts)
    findings.results += outcome.results
    findings.measurements += outcome.measurements
    findings.tables += outcome.tables
    why = "interrupted" if state is StageState.NOT_RUN else ""
    bad = [r for r in outcome.results if r.status in {Status.FAIL, Status.ERROR}]
    cause = f"benchmarks failed: {', '.join(dict.fromkeys(r.id for r in bad))}" if bad else ""
    fix = next((r.fix for r in bad if r.fix), "")
    findings.outcomes += [
        StageOutcome(
            stage=VALIDATE, host=h, state=state, why=why, seconds=seconds, cause=cause, fix=fix
        )
        for h in hosts
    ]
    # What could not be measured is tried again by the next run.
    if state is StageState.DONE and not lacking(outcome.results):
        session.journal.append(
            session.run,
            "validated",
            digest=_state_of(session, found),
            results=[r.model_dump(mode="json") for r in outcome.results],
            measurements=[m.model_dump(mode="json") for m in outcome.measurements],
            tables=[t.model_dump(mode="json") for t in outcome.tables],
        )


def _recall(session: Session, findings: Findings) -> None:
    """Benchmarks of an earlier run on the very same state, marked with when that was."""
    last = session.journal.last("validated")
    if last is None:
        return
    mark = f"measured in run {last.run}; nothing has changed since"
    stored: dict[str, list[dict[str, object]]] = json.loads(json.dumps(last.data))
    for result in map(CheckResult.model_validate, stored["results"]):
        evidence = _marked(result.evidence, mark)
        findings.results.append(result.model_copy(update={"evidence": evidence}))
    for measured in map(Measurement.model_validate, stored["measurements"]):
        detail = measured.detail | {"recalled": mark}
        findings.measurements.append(measured.model_copy(update={"detail": detail}))
    for table in map(Table.model_validate, stored["tables"]):
        note = _marked(table.note, mark)
        findings.tables.append(table.model_copy(update={"note": note}))


def _marked(text: str, mark: str) -> str:
    return f"{text}; {mark}" if text else mark


def with_validation(session: Session, planned: Planned, filters: Filters) -> Plan:
    """The plan with its last stage: the benchmarks run when anything they rest on is new."""
    plan = planned.plan
    if not filters.validates:
        return plan
    last = session.journal.last("validated")
    same = (
        last is not None
        and not _worked_since(session, last)
        and last.data["digest"] == _state_of(session, planned.found)
    )
    changes = any(cell.stage != QUEUES for cell in plan.pending())
    wanted = changes or not same or VALIDATE in filters.stages or filters.full
    why = "after the changes" if changes else "not validated in this state"
    cells = []
    for host in session.site.hosts:
        concerned = {Role.CONTROL, Role.GPU}.intersection(host.roles)
        action = Action.NOT_CONCERNED if not concerned else Action.RUN if wanted else Action.SKIP
        if host.name in planned.found.unanswered:
            action = Action.UNKNOWN
        cells.append(
            HostStage(
                stage=VALIDATE,
                host=host.name,
                action=action,
                why=why if action is Action.RUN else "",
                minutes=MINUTES if action is Action.RUN else 0.0,
                known=last is not None,
            )
        )
    return plan.model_copy(
        update={"stages": (*plan.stages, VALIDATE), "cells": (*plan.cells, *cells)}
    )


def _worked_since(session: Session, validated: Entry) -> bool:
    """Whether some stage ran after the benchmarks: a repair leaves what is applied the same, and yet it is another state."""
    last = session.journal.last("host_started")
    return last is not None and last.seq > validated.seq


def _state_of(session: Session, found: Round) -> str:
    """A digest of all that the benchmarks rest on: what is applied where, what they must reach, and which boot it is.

    What is applied is made anew from the facts of this moment: a run itself changes what is known of a site.
    """
    prepared = prepare(session, known_facts(session, found), STAGES)
    state = {
        "appliance": __version__,
        "profile": session.profile.model_dump_json(),
        "container": str(session.site.slurm.containers and session.site.slurm.containers.benchmark),
        "limits": {name: bound.model_dump_json() for name, bound in session.site.limits.items()},
        "stages": {f"{s}/{h}": p.fingerprint for (s, h), p in prepared.items()},
        "boots": {name: f.os.boot_id for name, f in found.facts.items()},
    }
    return hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()
