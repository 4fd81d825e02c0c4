"""One stage at work: its playbook on some hosts, each proved before it counts."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from appliance.adapters import leftovers
from appliance.adapters.ansible import LAST_PLAY, HostPlay, Play, TaskEvent, play
from appliance.checks.check import View
from appliance.engine.changes import note
from appliance.engine.diagnose import Diagnosis, diagnose, full_filesystem
from appliance.engine.gather import Unanswered, ask
from appliance.engine.judge import judge_host
from appliance.engine.owned import kinds_of_host_keys
from appliance.engine.playbook import last_plays, plays_of
from appliance.engine.prepare import Preparation, Prepared
from appliance.engine.prove import Proof, SettleClock, prove
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
    Stage,
)

Through = Callable[[HostPlay], None]


@dataclass
class Learned:
    """What the stages of a run learn of hosts for those that come after; written by many threads, and the last word counts.

    ``stages``: those of the run. ``gone``: hosts that could no longer be reached, with the stage that found out.
    ``broken``: by stage and host what its checks say of a finished stage, after one that it comes after ran there.
    """

    stages: tuple[Stage, ...] = ()
    gone: dict[str, str] = field(default_factory=dict)
    broken: dict[tuple[str, str], str] = field(default_factory=dict)


def play_and_prove(
    session: Session,
    stage: Stage,
    cells: Sequence[HostStage],
    prepared: Preparation,
    learned: Learned,
    stopwatch: Stopwatch,
) -> list[StageOutcome]:
    """Plays the stage on the hosts of these cells; each is proved as soon as it is through. One outcome per cell."""
    if not cells:
        return []
    note(session, stage.name, [prepared[stage.name, c.host] for c in cells])
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
            plays = _play(session, stage, cells, prepared, finish)
        finally:
            peers.end()
        for play in plays.values():
            finish(play)
        return [ends[c.host].result() for c in cells]


def announce(session: Session, stage: Stage, cells: Sequence[HostStage]) -> None:
    """Says in journal and on the screen that the stage begins on these hosts."""
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


def sum_up(
    session: Session, stage: Stage, outcomes: Sequence[StageOutcome], stopwatch: Stopwatch
) -> None:
    """Says how the stage ended."""
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

    request = play_of(session, stage, cells, prepared)
    try:
        return play(request, follow, on_through, session.cancelled.is_set)
    except AnsibleFailed as error:
        return {
            host: HostPlay(host, message=error.message, remedy=error.hint) for host in request.hosts
        }


def play_of(
    session: Session, stage: Stage, cells: Sequence[HostStage], prepared: Preparation
) -> Play:
    """What Ansible is given for one stage on the hosts of these cells."""
    hosts = {c.host: _variables(session, stage, c, prepared) for c in cells}
    if "base" in stage.ansible_roles:
        for name, kinds in kinds_of_host_keys(session, hosts).items():
            hosts[name][HOST_KEYS] = kinds
    groups = {
        role.value: tuple(h.name for h in session.site.with_role(role) if h.name in hosts)
        for role in Role
    }
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
        redact=session.redact,
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
    learned: Learned,
    stopwatch: Stopwatch,
) -> StageOutcome:
    """Proves a host that is through, and says in journal and on the screen how it ended."""
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
    tell(session, outcome, result.tasks)
    return outcome


def _judge_later(session: Session, stage: Stage, facts: HostFacts, learned: Learned) -> None:
    """What the stage's proof saw may end a finished stage that comes after it, or heal one."""
    host = session.site.host(facts.host)
    view = View(session.profile, session.site, {facts.host: facts})
    for later in learned.stages:
        if stage.name in later.after and later.name in facts.receipts:
            found = judge_host(view, host, later.checks)
            bad = next((r for r in found if r.status is Status.FAIL), None)
            learned.broken[later.name, facts.host] = f"{bad.id}: {bad.cause}" if bad else ""


def tell(session: Session, outcome: StageOutcome, tasks: int = 0) -> None:
    """Says in journal and on the screen how a host came through."""
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
        # Ansible only passes on what ssh printed; a connection of our own says what is the matter.
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
        return Diagnosis("its playbook ended before this host was through", "deploy again")
    return proof.problem if proof else Diagnosis("its checks did not run", "deploy again")
