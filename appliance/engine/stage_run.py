"""One stage at work: its playbook on some hosts, each proved before it counts."""

from collections.abc import Iterable
from datetime import UTC, datetime

from appliance.adapters import strays
from appliance.adapters.ansible import HostPlay, Play, TaskEvent, play
from appliance.engine.diagnose import Diagnosis, diagnose, full_filesystem
from appliance.engine.gather import gather
from appliance.engine.planning import Preparation
from appliance.engine.prove import Proof, prove
from appliance.engine.session import Session
from appliance.errors import AnsibleFailed, ConnectionFailed
from appliance.models.events import HostDone, HostTask, StageDone, StageStarted
from appliance.models.plan import HostStage
from appliance.models.run import StageOutcome, StageState
from appliance.models.site import Role
from appliance.stages.stage import Stage


def run_stage(
    session: Session, stage: Stage, cells: list[HostStage], prepared: Preparation
) -> list[StageOutcome]:
    """Plays the stage on the hosts of these cells and proves it there; one outcome per cell."""
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
