"""Applies a plan: stages in their order, independent ones side by side, each proved before it counts."""

import os
from collections.abc import Iterable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field
from datetime import UTC, datetime

from appliance.adapters import strays
from appliance.adapters.ansible import HostPlay, Play, TaskEvent, play
from appliance.engine.diagnose import Diagnosis, diagnose, full_filesystem
from appliance.engine.gather import gather
from appliance.engine.planning import Preparation
from appliance.engine.prove import Proof, prove
from appliance.engine.session import Session
from appliance.engine.threads import threads
from appliance.errors import AnsibleFailed, ConnectionFailed
from appliance.models.events import HostDone, HostTask, StageDone, StageStarted
from appliance.models.plan import Action, HostStage, Plan
from appliance.models.run import StageOutcome, StageState
from appliance.models.site import Role
from appliance.stages.stage import Stage


@dataclass
class _Progress:
    """What has become of the run so far; written by the scheduling thread only."""

    outcomes: list[StageOutcome] = field(default_factory=list)
    done: set[str] = field(default_factory=set)

    def failed(self, host: str, stages: Iterable[str]) -> str:
        """The first of these stages that the host has not come through, or ""."""
        bad = {StageState.FAILED, StageState.BLOCKED, StageState.NOT_RUN}
        lost = {o.stage for o in self.outcomes if o.host == host and o.state in bad}
        return next((s for s in stages if s in lost), "")


def apply(
    session: Session, plan: Plan, stages: tuple[Stage, ...], prepared: Preparation
) -> list[StageOutcome]:
    """Every cell that asks for a change. A host that fails a stage is left out of those that need it."""
    progress = _Progress()
    waiting = list(stages)
    running: dict[Future[list[StageOutcome]], Stage] = {}
    with threads(max(2, min(4, os.cpu_count() or 1))) as pool:
        while waiting or running:
            names = {s.name for s in stages}
            for stage in list(waiting):
                ready = all(a in progress.done for a in stage.after if a in names)
                if ready and not session.cancelled.is_set():
                    waiting.remove(stage)
                    cells, blocked = _split(plan, stage, progress)
                    progress.outcomes += blocked
                    work = pool.submit(_stage, session, stage, cells, prepared)
                    running[work] = stage
            if not running:
                break
            for work in wait(running, return_when=FIRST_COMPLETED).done:
                stage = running.pop(work)
                outcomes = work.result()
                progress.outcomes += outcomes
                progress.done.add(stage.name)
    return progress.outcomes + _untouched(plan, stages, progress.outcomes)


def _split(
    plan: Plan, stage: Stage, progress: _Progress
) -> tuple[list[HostStage], list[StageOutcome]]:
    """The cells that can run, and the outcomes of those that cannot: a stage they need failed there."""
    able: list[HostStage] = []
    blocked: list[StageOutcome] = []
    for cell in plan.by_stage(stage.name):
        if not cell.action.changes:
            continue
        if lost := progress.failed(cell.host, stage.after):
            why = f"{lost} failed there"
            blocked.append(
                StageOutcome(stage=cell.stage, host=cell.host, state=StageState.BLOCKED, why=why)
            )
        else:
            able.append(cell)
    return able, blocked


def _untouched(
    plan: Plan, stages: tuple[Stage, ...], outcomes: list[StageOutcome]
) -> list[StageOutcome]:
    """Cells nothing happened to: in order, unreachable, or cut off by an interrupt."""
    told = {(o.stage, o.host) for o in outcomes}
    states = {Action.SKIP: StageState.SKIPPED, Action.UNKNOWN: StageState.NOT_RUN}
    return [
        StageOutcome(
            stage=c.stage, host=c.host, state=states.get(c.action, StageState.NOT_RUN), why=c.why
        )
        for stage in stages
        for c in plan.by_stage(stage.name)
        if c.action is not Action.NOT_CONCERNED and (c.stage, c.host) not in told
    ]


def _stage(
    session: Session, stage: Stage, cells: list[HostStage], prepared: Preparation
) -> list[StageOutcome]:
    if not cells:
        return []
    started = datetime.now(UTC)
    hosts = tuple(c.host for c in cells)
    expected = max(c.minutes for c in cells) * 60
    session.tell(StageStarted(stage=stage.name, hosts=hosts, expected_seconds=expected or None))
    for cell in cells:
        session.journal.append(
            session.run, "host_started", stage=stage.name, host=cell.host, why=cell.why
        )
    plays = _play(session, stage, cells, prepared)
    finished = {host: p.resources for host, p in plays.items() if p.ok}
    proofs = {} if session.cancelled.is_set() else prove(session, stage, finished, prepared)
    outcomes = [_conclude(session, stage, plays[host], proofs.get(host), started) for host in hosts]
    good = sum(o.state is StageState.DONE for o in outcomes)
    session.tell(
        StageDone(
            stage=stage.name,
            state=StageState.DONE if good == len(outcomes) else StageState.FAILED,
            done=good,
            hosts=len(outcomes),
            seconds=(datetime.now(UTC) - started).total_seconds(),
            changes=sum(o.changes for o in outcomes),
        )
    )
    return outcomes


def _play(
    session: Session, stage: Stage, cells: list[HostStage], prepared: Preparation
) -> dict[str, HostPlay]:
    def follow(event: TaskEvent) -> None:
        session.tell(HostTask(stage=stage.name, host=event.host, task=event.task))
        if event.state in {"changed", "failed", "unreachable"}:
            session.journal.append(
                session.run,
                f"task_{event.state}",
                stage=stage.name,
                host=event.host,
                task=event.task,
                message=session.redact(event.message),
            )

    request = play_of(session, stage, cells, prepared)
    try:
        return play(request, follow, session.cancelled.is_set)
    except AnsibleFailed as error:
        return {
            host: HostPlay(host, failed_task=error.hint, message=error.message)
            for host in request.hosts
        }


def play_of(
    session: Session, stage: Stage, cells: Iterable[HostStage], prepared: Preparation
) -> Play:
    """What Ansible is given for one stage on the hosts of these cells."""
    hosts = {c.host: _variables(session, stage, c, prepared) for c in cells}
    return Play(
        playbook=session.data / "playbooks" / f"{stage.name}.yml",
        roles=session.data / "roles",
        hosts=hosts,
        groups={
            role.value: tuple(h.name for h in session.site.with_role(role) if h.name in hosts)
            for role in Role
        },
        known_hosts=session.folder / session.site.access.known_hosts,
        mark=strays.mark(session.folder_of_run),
    )


def _variables(
    session: Session, stage: Stage, cell: HostStage, prepared: Preparation
) -> dict[str, object]:
    access = session.site.access
    host = session.site.host(cell.host)
    connection: dict[str, object] = {
        "ansible_host": str(host.address),
        "ansible_port": access.port,
        "ansible_user": access.user,
        "ansible_become": access.become,
        "ansible_python_interpreter": "/usr/bin/python3",
        "appliance_repair_pins": cell.pins,
    }
    if access.private_key:
        connection["ansible_ssh_private_key_file"] = str(session.folder / access.private_key)
    return connection | prepared[stage.name, cell.host].variables


def _conclude(
    session: Session, stage: Stage, result: HostPlay, proof: Proof | None, started: datetime
) -> StageOutcome:
    seconds = (datetime.now(UTC) - started).total_seconds()
    problem = None
    if session.cancelled.is_set() and not (proof and not proof.problem):
        state = StageState.NOT_RUN
    else:
        problem = _problem(session, result, proof)
        state = StageState.FAILED if problem else StageState.DONE
    outcome = StageOutcome(
        stage=stage.name,
        host=result.host,
        state=state,
        why="interrupted" if state is StageState.NOT_RUN else "",
        seconds=seconds,
        changes=result.changes,
        started=started,
        cause=session.redact(problem.cause) if problem else "",
        fix=session.redact(problem.fix) if problem else "",
    )
    kind = {StageState.DONE: "host_done", StageState.FAILED: "host_failed"}.get(
        state, "host_interrupted"
    )
    session.journal.append(
        session.run,
        kind,
        stage=stage.name,
        host=result.host,
        seconds=seconds,
        changes=result.changes,
        tasks=result.tasks,
        cause=outcome.cause,
        fix=outcome.fix,
    )
    session.tell(
        HostDone(
            stage=stage.name,
            host=result.host,
            state=state,
            seconds=seconds,
            changes=result.changes,
            cause=outcome.cause,
            fix=outcome.fix,
        )
    )
    return outcome


def _problem(session: Session, result: HostPlay, proof: Proof | None) -> Diagnosis | None:
    if result.unreachable:
        # Ansible only passes on what ssh printed; a connection of our own says what is the matter.
        try:
            session.remote.reach(result.host)
        except ConnectionFailed as error:
            return Diagnosis(error.message, error.hint)
    if result.failed_task:
        asked = gather(session.remote, {result.host: {"areas": ["filesystems"]}})
        full = full_filesystem(asked.facts.get(result.host))
        return diagnose(result.host, result.failed_task, result.message, full)
    if not result.finished:
        return Diagnosis("its playbook ended before this host was through", "deploy again")
    return proof.problem if proof else Diagnosis("its checks did not run", "deploy again")
