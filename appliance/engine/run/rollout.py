"""Runs a stage on its hosts: at once, or in waves if a host must be drained. A host that fails stops the waves."""

import time
from collections.abc import Sequence

from appliance.engine.look.fact_history import known_facts
from appliance.engine.look.gather import Round, Unanswered, ask, each
from appliance.engine.plan.planning import lagging
from appliance.engine.plan.prepare import Preparation
from appliance.engine.plan.rollout_order import leads
from appliance.engine.run.drain import PAUSE, Drain, drain, resume
from appliance.engine.run.stage_run import (
    LearnedFacts,
    play_and_prove,
    report_host_end,
    report_stage_end,
    report_stage_start,
)
from appliance.engine.session import Session
from appliance.engine.stopwatch import Stopwatch
from appliance.errors import ApplianceError, ClusterFailed
from appliance.models.drain import HEALTH, MAINTENANCE
from appliance.models.events import Message
from appliance.models.facts import HostFacts
from appliance.models.gpu_counts import gpu_count
from appliance.models.plan import Action, HostStage, Plan
from appliance.models.run import StageOutcome, StageState
from appliance.models.site import Role
from appliance.stages.stage import Stage, never

REMEDY = "increase the wait (gpu.drain_minutes) or allow ending them (gpu.interrupt_jobs)"

DRAINED, GIVEN_BACK = "drained", "given_back"
"""Kinds of journal entries."""

PATIENCE = 300.0
"""Seconds until a cluster reports a host again after an interrupted change."""


def run_stage(
    session: Session,
    stage: Stage,
    cells: Sequence[HostStage],
    prepared: Preparation,
    learned: LearnedFacts,
) -> list[StageOutcome]:
    """Run the stage on the hosts of these cells, wave by wave. Returns one outcome per cell."""
    if not cells:
        return []
    stopwatch = Stopwatch()
    report_stage_start(session, stage, cells)
    outcomes: list[StageOutcome] = []
    # A leading host that failed an earlier stage is not among the cells.
    missing = lagging(session, stage, cells, _known(session), prepared)
    for turn in sorted({c.wave for c in cells}):
        wave = [c for c in cells if c.wave == turn]
        failed = missing or next((o.host for o in outcomes if _stops(session, stage, o)), None)
        if failed or (turn and session.cancelled.is_set()):
            outcomes += _unreached(session, stage, wave, failed)
        else:
            outcomes += _wave(session, stage, wave, prepared, learned, stopwatch)
    report_stage_end(session, stage, outcomes, stopwatch)
    by_host = {outcome.host: outcome for outcome in outcomes}
    return [by_host[cell.host] for cell in cells]


def _stops(session: Session, stage: Stage, outcome: StageOutcome) -> bool:
    """Return whether the next host would fail for the same reason; work that did not end in time is another matter. No leading host is skipped."""
    met = outcome.started is not None or leads(session.site, stage, outcome.host)
    return outcome.state is StageState.FAILED and met


def _wave(
    session: Session,
    stage: Stage,
    cells: Sequence[HostStage],
    prepared: Preparation,
    learned: LearnedFacts,
    stopwatch: Stopwatch,
) -> list[StageOutcome]:
    drained = [c.host for c in cells if c.drain]
    before = {host: _answering(f) for host, f in _known(session).items() if f.gpus}
    busy = {
        host: outcome
        for host, outcome in each(drained, lambda h: _freed(session, stage, h))
        if outcome
    }
    free = [c for c in cells if c.host not in busy]
    outcomes = play_and_prove(session, stage, free, prepared, learned, stopwatch)
    for cell, outcome in zip(free, outcomes, strict=True):
        if cell.drain:
            had = gpu_count(
                session.profile_of(outcome.host),
                session.site.host(outcome.host),
            )
            _end(session, outcome, before.get(outcome.host, had))
        elif cell.known and stage.drains is not never and outcome.state is StageState.DONE:
            # An interrupted change may be over by now, but its drain is not.
            _give_back(session, outcome.host)
    return [*busy.values(), *outcomes]


def _freed(session: Session, stage: Stage, host: str) -> StageOutcome | None:
    """Drain a host; return why that failed, or None."""
    given = session.site.gpu
    wanted = Drain(stage.drain_reason, given.drain_minutes * 60, given.interrupt_jobs, REMEDY)
    patience = PATIENCE if _is_noted(session, host) else 0.0
    # Before the drain, so that a killed run leaves a record.
    session.journal.append(session.run, DRAINED, host=host)
    try:
        _drain(session, host, wanted, patience)
    except ApplianceError as error:
        cut = session.cancelled.is_set()
        outcome = StageOutcome(
            stage=stage.name,
            host=host,
            state=StageState.NOT_RUN if cut else StageState.FAILED,
            why="interrupted" if cut else "",
            cause=session.redact(error.told_of(host)),
            fix=session.redact(error.hint),
        )
        report_host_end(session, outcome)
        return outcome
    return None


def _drain(session: Session, host: str, wanted: Drain, patience: float) -> None:
    end = time.monotonic() + patience
    while True:
        try:
            return drain(session, (host,), wanted)
        except ClusterFailed:
            if time.monotonic() >= end or session.cancelled.wait(PAUSE):
                raise


def _end(session: Session, outcome: StageOutcome, before: int) -> None:
    """Return a host to work if it succeeded, or if all its GPUs still answer; else it stays drained until an operator has looked."""
    if outcome.state is StageState.DONE or (
        outcome.state is StageState.FAILED
        and not outcome.away
        and _works(session, outcome.host, before)
    ):
        _give_back(session, outcome.host)
    elif outcome.state is StageState.FAILED:
        text = "stays drained: not all of its GPUs answer"
        session.tell(Message(text=text, level="warning", host=outcome.host))


def _works(session: Session, host: str, before: int) -> bool:
    if Role.GPU not in session.site.host(host).roles:
        return True
    found = ask(session.remote, host, {"areas": ["gpus"]})
    if isinstance(found, Unanswered) or not found.gpus:
        return False
    return bool(found.gpus.driver) and _answering(found) >= before


def _answering(facts: HostFacts) -> int:
    """The driver counts lost GPUs, too."""
    return sum(1 for g in facts.gpus.devices if g.bus_id and not g.error) if facts.gpus else 0


def _give_back(session: Session, host: str) -> None:
    try:
        resume(session, (host,))
    except ApplianceError as error:
        text = f"is done, but still drained: {error.told_of(host)}"
        session.tell(Message(text=text, level="warning", host=host))
    else:
        session.journal.append(session.run, GIVEN_BACK, host=host)


def resume_left_drained(session: Session, plan: Plan, stages: Sequence[Stage]) -> None:
    """Return hosts that an earlier run drained and completed, but did not return to work before it was killed."""
    rolled = {stage.name for stage in stages if stage.drains is not never}
    for cell in plan.cells:
        if cell.stage in rolled and cell.action is Action.SKIP and _is_noted(session, cell.host):
            _give_back(session, cell.host)


def is_left_drained(session: Session, found: Round, host: str) -> bool:
    """Whether a change of this host was interrupted, as reported by a control host, or otherwise by the journal."""
    for control in session.site.with_role(Role.CONTROL):
        facts = found.facts.get(control.name)
        for node in (facts.kubernetes.nodes if facts and facts.kubernetes else None) or ():
            if node.name == host:
                kept = (HEALTH, MAINTENANCE)
                return bool(node.cordoned_for) and not node.cordoned_for.startswith(kept)
    return _is_noted(session, host)


def _is_noted(session: Session, host: str) -> bool:
    taken = session.journal.last(DRAINED, host=host)
    given = session.journal.last(GIVEN_BACK, host=host)
    return taken is not None and (given is None or given.seq < taken.seq)


def _unreached(
    session: Session, stage: Stage, cells: Sequence[HostStage], failed: str | None
) -> list[StageOutcome]:
    """Return the outcomes of hosts that the waves do not reach."""
    state = StageState.BLOCKED if failed else StageState.NOT_RUN
    why = f"{failed} failed, so stage {stage.name} stops here" if failed else "interrupted"
    fix = f"repair {failed}, then deploy again" if failed else ""
    for cell in cells:
        if failed:
            session.tell(Message(text=f"skipped: {why}", level="warning", host=cell.host))
    return [
        StageOutcome(stage=stage.name, host=c.host, state=state, why=why, fix=fix) for c in cells
    ]


def _known(session: Session) -> dict[str, HostFacts]:
    return dict(known_facts(session, Round({}, {})))
