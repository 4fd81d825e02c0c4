"""Stages of the cluster: their cells in the plan, their runs, and their receipts in the journal."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from appliance.benchmarks.benchmark import Outcome
from appliance.engine.look.gather import Round
from appliance.engine.look.run_record import Findings
from appliance.engine.plan.selection import Selection
from appliance.engine.run import queues_stage, runai_stage, validate_stage
from appliance.engine.run.cluster_stage_run import ClusterOutcome
from appliance.engine.session import Session
from appliance.journal import Entry
from appliance.models.plan import Action, HostStage, Plan
from appliance.models.run import StageOutcome, StageState
from appliance.models.site import Role, Site
from appliance.stages.catalog import CLUSTER_STAGES
from appliance.stages.queues.stage import STAGE as QUEUES
from appliance.stages.runai.stage import STAGE as RUNAI
from appliance.stages.stage import ClusterStage
from appliance.stages.validate.stage import STAGE as VALIDATE

Look = Callable[[], Round]
"""Returns the facts gathered after the last change; the first call gathers them."""
_BAD = frozenset({StageState.FAILED, StageState.BLOCKED})
_FINISHED = frozenset({StageState.DONE, StageState.SKIPPED})


def nothing(site: Site) -> tuple[str, ...]:
    """For a stage that no check proves."""
    return ()


@dataclass(frozen=True)
class StageWork:
    """Implements a stage of the cluster; its declaration is in ``appliance/stages``.

    ``minutes``: shown in the plan. ``why``: the reason to run it now, "" if its receipt is valid; it gets the
    facts, the plan of the host stages, the receipt, and whether the user asks for it. ``run``: runs it for
    these hosts.
    ``recall``: what a valid receipt measured, None for a stage that measures nothing. ``proofs``: ids that
    prove it.
    """

    minutes: Callable[[Site], float]
    why: Callable[[Session, Round, Plan, Entry | None, bool], str]
    run: Callable[[Session, Sequence[str], Look], ClusterOutcome]
    recall: Callable[[Entry], Outcome] | None = None
    proofs: Callable[[Site], tuple[str, ...]] = nothing


WORK: Mapping[str, StageWork] = {
    RUNAI.name: StageWork(lambda site: runai_stage.MINUTES, runai_stage.why, runai_stage.run),
    QUEUES.name: StageWork(lambda site: queues_stage.MINUTES, queues_stage.why, queues_stage.run),
    VALIDATE.name: StageWork(
        validate_stage.minutes,
        validate_stage.why,
        validate_stage.run,
        validate_stage.recall,
        validate_stage.proofs,
    ),
}


def with_cluster(session: Session, found: Round, selection: Selection, plan: Plan) -> Plan:
    """Add the selected stages of the cluster to the plan, with the hosts they concern."""
    made = [c for s in selection.cluster for c in _cells(session, found, selection, plan, s)]
    concerned = {c.host for c in made if c.action is not Action.NOT_CONCERNED}.union(plan.hosts)
    return plan.model_copy(
        update={
            "hosts": tuple(h.name for h in session.site.hosts if h.name in concerned),
            "stages": (*plan.stages, *(s.name for s in selection.cluster)),
            "cells": (*plan.cells, *(c for c in made if c.host in concerned)),
        }
    )


def _cells(
    session: Session, found: Round, selection: Selection, plan: Plan, stage: ClusterStage
) -> Iterator[HostStage]:
    work, last = WORK[stage.name], session.journal.last(stage.receipt)
    why = work.why(session, found, plan, last, selection.asks_for(stage.name))
    concerned = stage.hosts(session.site)
    for host in session.site.hosts:
        action = Action.RUN if why else Action.SKIP
        if host not in concerned:
            action = Action.NOT_CONCERNED
        elif host.name in found.unanswered:
            action = Action.UNKNOWN
        yield HostStage(
            stage=stage.name,
            host=host.name,
            action=action,
            why=why if action is Action.RUN else "",
            minutes=work.minutes(session.site) if action is Action.RUN else 0.0,
            known=last is not None and host in concerned,
        )


def run_cluster_stage(
    session: Session, stage: ClusterStage, plan: Plan, findings: Findings, look: Look
) -> None:
    """Run the planned stages, and add the outcome to ``findings``, which holds the outcomes of earlier stages."""
    silent = look().unanswered if stage.measures else {}
    cells = [c for c in plan.by_stage(stage.name) if c.action is not Action.NOT_CONCERNED]
    hosts = [c.host for c in cells if c.action.changes]
    if not hosts:
        _leave(session, stage, cells, findings)
    elif why := _waits(session, stage, findings.outcomes, silent):
        findings.outcomes += [
            StageOutcome(stage=stage.name, host=c.host, state=StageState.NOT_RUN, why=why)
            for c in cells
        ]
    else:
        done = WORK[stage.name].run(session, hosts, look)
        findings.add(done.measured)
        findings.outcomes += [_outcome(stage, host, done) for host in hosts]
        if done.receipt is not None:
            session.journal.append(session.run, stage.receipt, **done.receipt)


def _leave(
    session: Session, stage: ClusterStage, cells: Iterable[HostStage], findings: Findings
) -> None:
    """Add the last measurement to this run's report; a stage that measures nothing is reported as skipped."""
    if recall := WORK[stage.name].recall:
        if last := session.journal.last(stage.receipt):
            findings.add(recall(last))
        return
    findings.outcomes += [
        StageOutcome(stage=stage.name, host=c.host, state=StageState.SKIPPED)
        for c in cells
        if c.action is Action.SKIP
    ]


def _waits(
    session: Session,
    stage: ClusterStage,
    outcomes: Iterable[StageOutcome],
    silent: Collection[str],
) -> str:
    """Return why the stage cannot run after these outcomes; "" if it can."""
    if stage.measures:
        failed = any(o.state in _BAD for o in outcomes)
        return "other stages must succeed on all hosts first" if silent or failed else ""
    control = {host.name for host in session.site.with_role(Role.CONTROL)}
    for o in outcomes:
        if o.stage in stage.after and o.host in control and o.state not in _FINISHED:
            return f"stage {o.stage} must succeed on all hosts first"
    return ""


def _outcome(stage: ClusterStage, host: str, done: ClusterOutcome) -> StageOutcome:
    return StageOutcome(
        stage=stage.name,
        host=host,
        state=done.state,
        why=done.why,
        seconds=done.seconds,
        changes=done.changes,
        cause=done.cause,
        fix=done.fix,
    )


def noticed(outcomes: Iterable[StageOutcome]) -> frozenset[str]:
    """Return host stages whose checks observe what the stages of the cluster changed."""
    changed = {o.stage for o in outcomes if o.changes}
    return frozenset(name for s in CLUSTER_STAGES if s.name in changed for name in s.noticed_by)
