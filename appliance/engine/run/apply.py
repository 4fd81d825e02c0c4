"""Applies a plan: stages in their order, independent ones concurrently. A host's failure is a value.

While a stage reboots a host, or drains it and returns it, no other stage runs on that host.
"""

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field

from appliance.adapters import leftovers
from appliance.engine.plan.prepare import Preparation
from appliance.engine.plan.replan import judged_again, replan
from appliance.engine.run.rollout import run_stage
from appliance.engine.run.stage_run import LearnedFacts
from appliance.engine.session import Session
from appliance.engine.threads import threads
from appliance.models.plan import Action, HostStage, Plan
from appliance.models.run import StageOutcome, StageState
from appliance.stages.stage import Stage


@dataclass
class _Progress:
    """The state of the run; only the scheduling thread writes it, except for ``learned``."""

    learned: LearnedFacts
    outcomes: list[StageOutcome] = field(default_factory=list)
    done: set[str] = field(default_factory=set)

    def is_ready(self, stage: Stage, names: set[str]) -> bool:
        """Return whether all stages that it waits for in this run have ended."""
        return self.done >= names.intersection(stage.after + stage.facts_from)

    def lost(self, stages: Iterable[str]) -> dict[str, str]:
        """Return hosts that failed one of these stages, with the first such stage."""
        bad = {StageState.FAILED, StageState.BLOCKED, StageState.NOT_RUN}
        found = [
            (o.host, name)
            for name in stages
            for o in self.outcomes
            if o.stage == name and o.state in bad
        ]
        return dict(reversed(found))

    def teachers(self, stage: Stage) -> list[str]:
        """Return the stages it learns from that ran on at least one host."""
        played = {o.stage for o in self.outcomes if o.state in {StageState.DONE, StageState.FAILED}}
        return [name for name in stage.facts_from if name in played]


def apply(
    session: Session, plan: Plan, stages: tuple[Stage, ...], prepared: Preparation
) -> list[StageOutcome]:
    """Apply every cell that asks for a change. A host that fails a stage is excluded from stages that need it."""
    connections = leftovers.private_folder(leftovers.mark(session.folder_of_run))
    try:
        return _applied(
            session, plan, stages, prepared, LearnedFacts(stages, connections=connections)
        )
    finally:
        leftovers.discard(connections)


def _applied(
    session: Session,
    plan: Plan,
    stages: tuple[Stage, ...],
    prepared: Preparation,
    learned: LearnedFacts,
) -> list[StageOutcome]:
    progress = _Progress(learned)
    waiting = list(stages)
    running: dict[Future[list[StageOutcome]], Stage] = {}
    names = {s.name for s in stages}
    with threads(max(2, min(4, os.cpu_count() or 1))) as pool:
        while waiting or running:
            for stage in list(waiting):
                if not progress.is_ready(stage, names) or session.cancelled.is_set():
                    continue
                if not any(_collide(plan, stage, other) for other in running.values()):
                    waiting.remove(stage)
                    running[pool.submit(_work, session, plan, stage, prepared, progress)] = stage
            if not running:
                break
            for work in wait(running, return_when=FIRST_COMPLETED).done:
                stage = running.pop(work)
                progress.outcomes += work.result()
                progress.done.add(stage.name)
    return progress.outcomes + _untouched(plan, stages, progress.outcomes)


def _collide(plan: Plan, one: Stage, other: Stage) -> bool:
    """Return whether one of them reboots a host, or returns it to its scheduler, while the other would run on it."""
    cells = [c for s in (one, other) for c in plan.by_stage(s.name) if c.action.changes]
    taken = {c.host for c in cells if c.reboot or c.drain}
    return any(count > 1 for host, count in Counter(c.host for c in cells).items() if host in taken)


def _work(
    session: Session, plan: Plan, stage: Stage, prepared: Preparation, progress: _Progress
) -> list[StageOutcome]:
    cells, gone = list(plan.by_stage(stage.name)), progress.learned.gone
    if cells and (teachers := progress.teachers(stage)):
        cells, prepared = replan(session, stage, cells, prepared, teachers, frozenset(gone))
    cells = judged_again(session, stage, cells, progress.learned.broken)
    lost = progress.lost(stage.after)
    left_out = [o for c in cells if c.action.changes if (o := _left_out(c, gone, lost))]
    left_out += [
        StageOutcome(stage=c.stage, host=c.host, state=StageState.BLOCKED, why=c.why)
        for c in cells
        if c.action is Action.BLOCKED
    ]
    hosts = {o.host for o in left_out}
    able = [c for c in cells if c.action.changes and c.host not in hosts]
    return [*left_out, *run_stage(session, stage, able, prepared, progress.learned)]


def _left_out(
    cell: HostStage, gone: Mapping[str, str], lost: Mapping[str, str]
) -> StageOutcome | None:
    """Return the outcome of a cell that cannot run: its host became unreachable, or failed a required stage."""
    if cell.host in gone:
        why = f"{cell.host} went away in stage {gone[cell.host]}"
        return StageOutcome(stage=cell.stage, host=cell.host, state=StageState.NOT_RUN, why=why)
    if cell.host in lost:
        why = f"{lost[cell.host]} failed there"
        return StageOutcome(stage=cell.stage, host=cell.host, state=StageState.BLOCKED, why=why)
    return None


def _untouched(
    plan: Plan, stages: tuple[Stage, ...], outcomes: list[StageOutcome]
) -> list[StageOutcome]:
    """Return the outcomes of cells that did not run: up to date, unreachable, or interrupted."""
    told = {(o.stage, o.host) for o in outcomes}
    return [
        StageOutcome(stage=c.stage, host=c.host, state=StageState.SKIPPED)
        if c.action is Action.SKIP
        else StageOutcome(stage=c.stage, host=c.host, state=StageState.NOT_RUN, why=c.why)
        for stage in stages
        for c in plan.by_stage(stage.name)
        if c.action is not Action.NOT_CONCERNED and (c.stage, c.host) not in told
    ]
