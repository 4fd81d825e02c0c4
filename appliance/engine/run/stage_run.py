"""Runs one stage: its playbook on some hosts, each proved before it counts."""

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path

from appliance.adapters import leftovers
from appliance.adapters.ansible import LAST_PLAY, HostPlay, Play, TaskEvent, play
from appliance.adapters.remote import known_hosts_name
from appliance.checks.check import View
from appliance.engine import ansible_hosts
from appliance.engine.look.gather import Unanswered, ask
from appliance.engine.look.judge import judge_host
from appliance.engine.look.owned_places import host_key_types
from appliance.engine.plan.input_changes import store_parts
from appliance.engine.plan.prepare import Preparation, Prepared
from appliance.engine.run.diagnose import Diagnosis, diagnose, full_filesystem
from appliance.engine.run.play_facts import System
from appliance.engine.run.playbook import last_plays, plays_of
from appliance.engine.run.prove import Proof, SettleClock, prove
from appliance.engine.session import Session
from appliance.engine.stopwatch import Stopwatch
from appliance.engine.threads import threads
from appliance.errors import AnsibleFailed, ApplianceError, ConnectionFailed
from appliance.models.events import HostDone, HostTask, Message, StageDone, StageStarted
from appliance.models.facts import HostFacts
from appliance.models.plan import HostStage, expected_minutes
from appliance.models.result import Status
from appliance.models.run import StageOutcome, StageState
from appliance.models.site import Role
from appliance.stages.stage import (
    DRAINED,
    HOST_KEYS,
    MAY_REBOOT,
    PINS,
    PURGE,
    SITE_FOLDER,
    SYSTEM,
    Stage,
)

Through = Callable[[HostPlay], None]


@dataclass
class LearnedFacts:
    """Facts that the stages of a run learn for those that follow; written by many threads, the last write counts.

    ``stages``: those of the run. ``gone``: hosts that became unreachable, with the stage that noticed.
    ``broken``: by stage and host the results of a finished stage's checks, after an earlier stage ran there.
    ``connections``: the folder of the ssh connections that plays share, see ``_play``.
    ``systems``: the hosts' systems at the last proof.
    """

    stages: tuple[Stage, ...] = ()
    gone: dict[str, str] = field(default_factory=dict)
    broken: dict[tuple[str, str], str] = field(default_factory=dict)
    connections: Path | None = None
    systems: dict[str, System] = field(default_factory=dict)


def play_and_prove(
    session: Session,
    stage: Stage,
    cells: Sequence[HostStage],
    prepared: Preparation,
    learned: LearnedFacts,
    stopwatch: Stopwatch,
) -> list[StageOutcome]:
    """Run the stage on the hosts of these cells and prove each as soon as it completes. Returns one outcome per cell."""
    if not cells:
        return []
    store_parts(session, stage.name, [prepared[stage.name, c.host] for c in cells])
    peers = SettleClock(stage.settle_seconds)
    ends: dict[str, Future[StageOutcome]] = {}
    with threads(len(cells)) as pool:

        def finish(play: HostPlay) -> None:
            if play.host not in ends:
                known = prepared[stage.name, play.host]
                ends[play.host] = pool.submit(
                    _finish, session, stage, play, known, peers, learned, stopwatch
                )

        try:
            plays = _play(session, stage, cells, prepared, learned, finish)
        finally:
            peers.end()
        for play in plays.values():
            finish(play)
        return [ends[c.host].result() for c in cells]


def report_stage_start(session: Session, stage: Stage, cells: Sequence[HostStage]) -> None:
    """Record and report that the stage begins on these hosts."""
    hosts = tuple(c.host for c in cells)
    expected = expected_minutes(cells) * 60
    session.tell(StageStarted(stage=stage.name, hosts=hosts, expected_seconds=expected or None))
    for cell in cells:
        session.journal.append(
            session.run,
            "host_started",
            stage=stage.name,
            host=cell.host,
            why=session.redact(cell.why),
        )


def report_stage_end(
    session: Session, stage: Stage, outcomes: Sequence[StageOutcome], stopwatch: Stopwatch
) -> None:
    """Report how the stage ended."""
    good = sum(o.state is StageState.DONE for o in outcomes)
    session.tell(
        StageDone(
            stage=stage.name,
            state=StageState.DONE if good == len(outcomes) else StageState.FAILED,
            done=good,
            hosts=len(outcomes),
            seconds=stopwatch.seconds,
            changes=sum(o.changes for o in outcomes),
        )
    )


def _play(
    session: Session,
    stage: Stage,
    cells: Sequence[HostStage],
    prepared: Preparation,
    learned: LearnedFacts,
    on_through: Through,
) -> dict[str, HostPlay]:
    def follow(event: TaskEvent) -> None:
        session.tell(HostTask(stage=stage.name, host=event.host, task=event.task))
        if event.message and event.state == "changed":
            session.tell(Message(text=session.redact(event.message), host=event.host))
        if event.state in {"changed", "failed", "unreachable"}:
            session.journal.append(
                session.run,
                f"task_{event.state}",
                stage=stage.name,
                host=event.host,
                task=event.task,
                message=session.redact(event.message),
            )

    request = play_of(session, stage, cells, prepared, learned.systems)
    if "base" not in stage.ansible_roles:
        # Stage base changes logins: later stages must not use earlier connections.
        request = replace(request, connections=learned.connections)
    try:
        return play(request, follow, on_through, session.cancelled.is_set)
    except AnsibleFailed as error:
        return {
            host: HostPlay(host, message=error.message, remedy=error.hint) for host in request.hosts
        }


def play_of(
    session: Session,
    stage: Stage,
    cells: Sequence[HostStage],
    prepared: Preparation,
    systems: Mapping[str, System],
) -> Play:
    """Return Ansible's input for one stage on the hosts of these cells."""
    hosts = {c.host: _variables(session, stage, c, prepared) for c in cells}
    for name, system in systems.items():
        if name in hosts and (facts := system.facts()):
            hosts[name][SYSTEM] = facts
    if "base" in stage.ansible_roles:
        for name, kinds in host_key_types(session, hosts).items():
            hosts[name][HOST_KEYS] = kinds
    groups = ansible_hosts.groups(session.site, hosts)
    access = session.site.access
    playbook = session.data / "playbooks" / f"{stage.name}.yml"
    plays = plays_of(playbook)
    for name, number in last_plays(plays, hosts, groups).items():
        hosts[name][LAST_PLAY] = number
    return Play(
        playbook=playbook,
        plays=plays,
        roles=session.data / "roles",
        hosts=hosts,
        groups=groups,
        known_hosts=session.folder / access.known_hosts,
        private_key=session.folder / access.private_key if access.private_key else None,
        mark=leftovers.mark(session.folder_of_run),
        # A host that joins the cluster gets its token from a control host, which the play may leave out.
        delegates=tuple(
            known_hosts_name(str(h.address), access.port)
            for h in session.site.with_role(Role.CONTROL)
        ),
        redact=session.redact,
    )


def _variables(
    session: Session, stage: Stage, cell: HostStage, prepared: Preparation
) -> dict[str, object]:
    connection = ansible_hosts.connection(session.site.access, session.site.host(cell.host))
    connection |= {
        PINS: cell.pins,
        PURGE: list(cell.purge),
        MAY_REBOOT: cell.reboot,
        DRAINED: cell.drain,
        SITE_FOLDER: str(session.folder),
    }
    return connection | prepared[stage.name, cell.host].variables


def _finish(
    session: Session,
    stage: Stage,
    result: HostPlay,
    prepared: Prepared,
    peers: SettleClock,
    learned: LearnedFacts,
    stopwatch: Stopwatch,
) -> StageOutcome:
    """Prove a host that completed the stage; record and report the outcome."""
    proof = None
    if result.ok and not session.cancelled.is_set():
        proof = prove(session, stage, result.host, result.resources, prepared, peers)
    problem = None
    if session.cancelled.is_set() and not (proof and not proof.problem):
        state = StageState.NOT_RUN
    else:
        problem = _problem(session, result, proof)
        state = StageState.FAILED if problem else StageState.DONE
    if problem and problem.away:
        learned.gone.setdefault(result.host, stage.name)
    if proof and proof.facts:
        learned.systems[result.host] = System(proof.facts.os, time.monotonic())
        _judge_later(session, stage, proof.facts, learned)
    outcome = StageOutcome(
        stage=stage.name,
        host=result.host,
        state=state,
        why="interrupted" if state is StageState.NOT_RUN else "",
        seconds=stopwatch.seconds,
        changes=result.changes,
        started=stopwatch.started,
        cause=session.redact(problem.cause) if problem else "",
        fix=session.redact(problem.fix) if problem else "",
        away=bool(problem and problem.away),
    )
    report_host_end(session, outcome, result.tasks)
    return outcome


def _judge_later(session: Session, stage: Stage, facts: HostFacts, learned: LearnedFacts) -> None:
    """Record results of the proof that break a finished later stage, or repair one."""
    host = session.site.host(facts.host)
    view = View(session.profile, session.site, {facts.host: facts})
    for later in learned.stages:
        if stage.name in later.after and later.name in facts.receipts:
            found = judge_host(view, host, later.checks)
            bad = next((r for r in found if r.status is Status.FAIL), None)
            learned.broken[later.name, facts.host] = f"{bad.id}: {bad.cause}" if bad else ""


def report_host_end(session: Session, outcome: StageOutcome, tasks: int = 0) -> None:
    """Record and report a host's outcome."""
    kinds = {StageState.DONE: "host_done", StageState.FAILED: "host_failed"}
    told = outcome.model_dump(include={"stage", "host", "seconds", "changes", "cause", "fix"})
    session.journal.append(
        session.run, kinds.get(outcome.state, "host_interrupted"), tasks=tasks, **told
    )
    session.tell(HostDone(state=outcome.state, **told))


def _problem(session: Session, result: HostPlay, proof: Proof | None) -> Diagnosis | None:
    if result.remedy:
        return Diagnosis(result.message, result.remedy)
    if result.unreachable:
        # Ansible only passes on the output of ssh; a connection of our own shows the reason.
        try:
            session.remote.reach(result.host)
        except ApplianceError as error:
            return Diagnosis(error.message, error.hint, away=isinstance(error, ConnectionFailed))
    if result.failed_task:
        asked = ask(session.remote, result.host, {"areas": ["filesystems"]})
        if isinstance(asked, Unanswered):
            return (
                Diagnosis(asked.cause, asked.fix, away=True)
                if asked.away
                else diagnose(result.host, result.failed_task, result.message)
            )
        full = full_filesystem(asked)
        return diagnose(result.host, result.failed_task, result.message, full)
    if not result.finished:
        return Diagnosis("its playbook ended before this host was finished", "deploy again")
    return proof.problem if proof else Diagnosis("its checks did not run", "deploy again")
