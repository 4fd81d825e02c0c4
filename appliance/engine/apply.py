"""Applies a plan: stages in their order, independent ones side by side; a host's failure is a value.

Where a stage reboots a host, or drains it and gives it back, no other stage works on that host meanwhile.
"""

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field

from appliance.engine.prepare import Preparation
from appliance.engine.replan import judged_again, replan
from appliance.engine.roll import run_stage
from appliance.engine.session import Session
from appliance.engine.stage_run import Learned
from appliance.engine.threads import threads
from appliance.models.plan import Action, HostStage, Plan
from appliance.models.run import StageOutcome, StageState
from appliance.stages.stage import Stage


@dataclass
class _Progress:
    """What has become of the run so far; written by the scheduling thread only, except for ``learned``."""

    learned: Learned
    outcomes: list[StageOutcome] = field(default_factory=list)
    done: set[str] = field(default_factory=set)

    def is_ready(self, stage: Stage, names: set[str]) -> bool:
        """Whether all it waits for, as far as this run has it at all, is through."""
        return self.done >= names.intersection(stage.after + stage.facts_from)

    def lost(self, stages: Iterable[str]) -> dict[str, str]:
        """Hosts that have not come through one of these stages, with the first such stage."""
        bad = {StageState.FAILED, StageState.BLOCKED, StageState.NOT_RUN}
        found = [
            (o.host, name)
            for name in stages
            for o in self.outcomes
            if o.stage == name and o.state in bad
        ]
        return dict(reversed(found))

    def teachers(self, stage: Stage) -> list[str]:
        """The stages it learns from that were played somewhere."""
        played = {o.stage for o in self.outcomes if o.state in {StageState.DONE, StageState.FAILED}}
        return [name for name in stage.facts_from if name in played]


def apply(
    session: Session, plan: Plan, stages: tuple[Stage, ...], prepared: Preparation
) -> list[StageOutcome]:
    """Every cell that asks for a change. A host that fails a stage is left out of those that need it."""
    progress = _Progress(Learned(stages))
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
    """Whether one of them reboots a host, or gives it work back, on which the other would be at work."""
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
    """What becomes of a cell that cannot run: its host went away, or failed a stage that this one needs."""
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
    """Cells nothing happened to: in order, unreachable, or cut off by an interrupt."""
    told = {(o.stage, o.host) for o in outcomes}
    return [
        StageOutcome(stage=c.stage, host=c.host, state=StageState.SKIPPED)
        if c.action is Action.SKIP
        else StageOutcome(stage=c.stage, host=c.host, state=StageState.NOT_RUN, why=c.why)
        for stage in stages
        for c in plan.by_stage(stage.name)
        if c.action is not Action.NOT_CONCERNED and (c.stage, c.host) not in told
    ]
