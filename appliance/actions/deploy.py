"""Deploy: facts, plan, consent, apply, proof, report; the one verb that changes hosts."""

import hashlib
import json
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

from appliance import __version__
from appliance.actions.opening import Target, open_session
from appliance.actions.planned import (
    VALIDATE,
    Narrowing,
    Planned,
    names_of,
    plan_session,
    select,
    take_facts,
)
from appliance.actions.validate import run_benchmarks
from appliance.checks.check import View
from appliance.engine.apply import apply
from appliance.engine.gather import Round
from appliance.engine.judge import judge_all
from appliance.engine.record import Findings, record_of, save
from appliance.engine.requests import ALL_CHECK_IDS
from appliance.engine.session import Session
from appliance.models.events import CheckDone, Message, Observer, RunFinished, RunStarted
from appliance.models.facts import HostFacts
from appliance.models.plan import Action, HostStage, Plan
from appliance.models.result import CheckResult, Measurement
from appliance.models.run import RunRecord, StageOutcome, StageState, Table
from appliance.models.site import Role

INTERRUPTED = 130


@dataclass(frozen=True)
class Deployed:
    """How a deployment ended; ``record`` is None where the user declined."""

    record: RunRecord | None
    exit_code: int
    report: str = ""


def deploy(
    target: Target,
    narrowing: Narrowing,
    observer: Observer,
    consent: Callable[[Plan], bool],
) -> Deployed:
    """Brings the site to its profile and proves it. ``consent`` sees the plan before anything changes."""
    with open_session(target, "deploy", observer, changes=True) as session:
        begun = time.monotonic()
        _announce(session, target, names_of(select(session, narrowing), narrowing))
        planned = plan_session(session, narrowing)
        plan = with_validation(session, planned, narrowing)
        session.journal.append(session.run, "plan", cells=[c.model_dump() for c in plan.pending()])
        if plan.changes and not consent(plan):
            session.journal.append(session.run, "run_finished", verdict="declined")
            return Deployed(None, 1)
        findings = Findings()
        with _interruptible(session):
            found = _carry_out(session, planned, plan, findings)
        interrupted = session.cancelled.is_set()
        record = record_of(session, found, findings)
        save(session, record)
        code = INTERRUPTED if interrupted else record.verdict.exit_code
        session.journal.append(
            session.run, "run_finished", verdict=record.verdict, exit=code, interrupted=interrupted
        )
        report = str(session.folder_of_run / "report.html")
        session.tell(
            RunFinished(
                verdict=record.verdict,
                exit_code=code,
                seconds=time.monotonic() - begun,
                report=report,
            )
        )
        return Deployed(record, code, report)


def _announce(session: Session, target: Target, stages: tuple[str, ...]) -> None:
    session.journal.append(
        session.run,
        "run_started",
        verb="deploy",
        profile=session.profile.name,
        appliance=__version__,
    )
    note = (
        "No inventory given: using the virtual rack (container hosts on this machine, "
        f"{' and '.join(session.site.simulated)} simulated)."
        if target.embedded
        else ""
    )
    session.tell(
        RunStarted(
            run=session.run,
            verb="deploy",
            site=session.site.name,
            profile=session.profile.name,
            hosts=tuple(h.name for h in session.site.hosts),
            stages=stages,
            simulated=session.site.simulated,
            note=note,
        )
    )


def _carry_out(session: Session, planned: Planned, plan: Plan, findings: Findings) -> Round:
    """Applies, then judges the whole site on facts taken after the last change."""
    pending = [c for c in plan.pending() if c.stage != VALIDATE]
    if pending:
        findings.outcomes += apply(session, plan, planned.stages, planned.prepared)
    else:
        findings.outcomes += [
            StageOutcome(stage=c.stage, host=c.host, state=StageState.SKIPPED, why=c.why)
            for c in plan.cells
            if c.action is Action.SKIP and c.stage != VALIDATE
        ]
    if session.cancelled.is_set():
        session.tell(
            Message(
                text="Interrupted. The hosts keep what is finished; the next deploy continues there.",
                level="warning",
            )
        )
        return planned.found
    found = take_facts(session) if pending else planned.found
    view = View(session.profile, session.site, found.facts)
    findings.results += judge_all(view, found, ALL_CHECK_IDS)
    _validate(session, plan, planned, view, found, findings)
    for result in findings.results:
        session.tell(CheckDone(result=result))
    return found


def _validate(
    session: Session,
    plan: Plan,
    planned: Planned,
    view: View,
    found: Round,
    findings: Findings,
) -> None:
    cells = plan.by_stage(VALIDATE)
    if not cells:
        return
    if not any(c.action.changes for c in cells):
        _recall(session, findings)
        return
    failed = any(o.state in {StageState.FAILED, StageState.BLOCKED} for o in findings.outcomes)
    if found.unanswered or failed:
        why = "not run: other stages have to be whole first"
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
    findings.outcomes += [
        StageOutcome(stage=VALIDATE, host=h, state=state, seconds=seconds) for h in hosts
    ]
    if state is StageState.DONE:
        session.journal.append(
            session.run,
            "validated",
            digest=_state_of(planned, found.facts),
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
    for item in stored["results"]:
        result = CheckResult.model_validate(item)
        evidence = f"{result.evidence}; {mark}" if result.evidence else mark
        findings.results.append(result.model_copy(update={"evidence": evidence}))
    findings.measurements += [Measurement.model_validate(m) for m in stored["measurements"]]
    findings.tables += [Table.model_validate(t) for t in stored["tables"]]


def with_validation(session: Session, planned: Planned, narrowing: Narrowing) -> Plan:
    """The plan with its last stage: the benchmarks run when anything they rest on is new."""
    plan = planned.plan
    if not narrowing.validates:
        return plan
    last = session.journal.last("validated")
    same = last is not None and last.data["digest"] == _state_of(planned, planned.found.facts)
    wanted = plan.changes or not same or VALIDATE in narrowing.stages or narrowing.full
    why = "after the changes" if plan.changes else "not validated in this state"
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
                minutes=1.0 if action is Action.RUN else 0.0,
                known=last is not None,
            )
        )
    return plan.model_copy(
        update={"stages": (*plan.stages, VALIDATE), "cells": (*plan.cells, *cells)}
    )


def _state_of(planned: Planned, facts: Mapping[str, HostFacts]) -> str:
    """A digest of everything the benchmarks rest on: what is applied where, and which boot it is."""
    state = {
        "appliance": __version__,
        "stages": {f"{s}/{h}": p.fingerprint for (s, h), p in planned.prepared.items()},
        "boots": {name: f.os.boot_id for name, f in facts.items()},
    }
    return hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()


@contextmanager
def _interruptible(session: Session) -> Iterator[None]:
    """First Ctrl-C or TERM: stop cleanly. Second: at once; the journal already holds what is done."""

    def stop(signum: int, frame: FrameType | None) -> None:
        if session.cancelled.is_set():
            raise KeyboardInterrupt
        session.cancelled.set()
        session.tell(Message(text="Stopping; press Ctrl-C again to stop at once.", level="warning"))

    before = {s: signal.signal(s, stop) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)
