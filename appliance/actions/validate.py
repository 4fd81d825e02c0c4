"""Validate: the benchmarks of the cluster, alone or as the last stage of a deployment."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from appliance.actions.interrupt import interruptible
from appliance.actions.opening import Target, open_session
from appliance.actions.planned import take_facts
from appliance.actions.resumed import Asked, note, taken_up
from appliance.actions.through_pods import Pods, through
from appliance.benchmarks import BENCHMARKS, OF_DEPLOYMENT
from appliance.benchmarks.benchmark import Benchmark, Outcome
from appliance.checks.check import View, not_assessed
from appliance.engine.acceptance import with_acceptance
from appliance.engine.benchmarking import AGAIN, run_benchmarks, with_settings
from appliance.engine.jobs import open_jobs
from appliance.engine.judge import judge_all
from appliance.engine.lease import all_hosts, leased_by_run
from appliance.engine.record import Findings, record_of, save
from appliance.engine.session import Session
from appliance.engine.survey import view_of
from appliance.errors import ConfigError
from appliance.models.acceptance import gates_verdict
from appliance.models.events import Message, Observer
from appliance.models.result import CheckResult, Status, worse
from appliance.models.run import RunRecord
from appliance.report.advice import told
from appliance.stages.slurm.site import JobContainer


def choose(names: Sequence[str]) -> tuple[Benchmark, ...]:
    """The benchmarks called so; none named means those of a deployment. Raises ConfigError."""
    known = {b.name: b for b in BENCHMARKS}
    for name in names:
        if name not in known:
            raise ConfigError(f"no benchmark is called {name}", f"there are: {', '.join(known)}")
    return tuple(known[n] for n in names) or OF_DEPLOYMENT


def validate(
    target: Target,
    names: Sequence[str],
    observer: Observer,
    container: JobContainer | None = None,
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    pods: Pods | None = None,
    left_out: tuple[str, ...] = (),
) -> tuple[RunRecord, str]:
    """Runs benchmarks on the site as it is. The record, and where its report lies.

    ``container``: what gpt3 trains in, in place of the site's own choice; ``settings``: by benchmark what its run is given.
    ``pods``: hosts of Kubernetes are reached through it. ``left_out``: which benchmarks were not chosen, and why. Raises KeyboardInterrupt when it was interrupted, after what was measured until then has been kept.
    """
    wanted = choose(names)
    chosen = tuple(b.name for b in wanted)
    asked = Asked(chosen, container, settings or {}, left_out, bool(names) and not left_out)
    alone = any(b.holds for b in wanted)
    with (
        open_session(target, "validate", observer, keeps=True, alone=alone) as opened,
        through(opened, pods) as session,
    ):
        session.journal.append(session.run, "run_started", verb="validate")
        note(session, asked, ("--through kubernetes",) if pods else ())
        return _carried_out(session, asked, {}, opened)


def resume(target: Target, run: str, observer: Observer) -> tuple[RunRecord, str]:
    """Goes on with a run that ended before its benchmarks did: what it has judged stays, jobs at work are waited for.

    Raises ConfigError for a run that is through, or was none of benchmarks.
    """
    with open_session(target, "validate", observer, keeps=True, alone=True, run=run) as session:
        asked, known = taken_up(session)
        session.journal.append(run, "run_resumed")
        return _carried_out(session, asked, known, session)


def _carried_out(
    opened: Session, asked: Asked, known: Mapping[str, Outcome], direct: Session
) -> tuple[RunRecord, str]:
    """``known``: by benchmark what this run has shown before it was cut off; ``direct``: the session that reaches every host by ssh."""
    chosen = tuple(with_settings(b, asked.settings.get(b.name)) for b in choose(asked.names))
    session = _with_container(opened, asked.container) if asked.container else opened
    found = take_facts(session)
    view = view_of(session, found)
    findings = Findings(left_out=asked.left_out)
    findings.results += judge_all(view, found, ())
    if not found.unanswered:
        hosts = all_hosts(session) if any(b.holds for b in chosen) else ()
        with interruptible(session), leased_by_run(direct, hosts):
            shown = run_benchmarks(session, view, list(found.facts), chosen, known).measured
        owed = as_owed(chosen, shown.results) if asked.owed else shown.results
        findings.add(replace(shown, results=tuple(owed)))
    else:
        why = f"not run: {', '.join(found.unanswered)} has to answer first"
        findings.results += [
            not_assessed("cluster", why, fix=AGAIN).of(i) for b in chosen for i in b.checks
        ]
    record = with_gates(session, view, record_of(session, found, findings), deciding(chosen, view))
    save(session, record)
    interrupted = session.cancelled.is_set()
    session.journal.append(
        session.run, "run_finished", verdict=record.verdict, interrupted=interrupted
    )
    if interrupted:
        _tell_at_work(session)
        raise KeyboardInterrupt
    return record, str(session.folder_of_run / "report.html")


def as_owed(chosen: Sequence[Benchmark], results: Sequence[CheckResult]) -> list[CheckResult]:
    """Of benchmarks that show nothing: what would help is needed, for they were asked for by name."""
    unknown = {Status.SKIP, Status.NOT_ASSESSED}
    shown = {r.id for r in results if r.status not in unknown or r.value is not None}
    silent = {check for b in chosen if not shown.intersection(b.checks) for check in b.checks}
    return [
        r.model_copy(update={"required": True}) if r.id in silent and r.fix else r for r in results
    ]


def deciding(chosen: Sequence[Benchmark], view: View) -> set[str]:
    """The gates that a run of these decides on: one that no evidence will ever close is acceptance's alone to wait for."""
    gates = (wanted for benchmark in chosen for wanted in benchmark.gates(view))
    return {wanted.id for wanted in gates if not wanted.forever}


def _tell_at_work(session: Session) -> None:
    """Whoever stops the program does not stop what it has submitted."""
    for job in open_jobs(session):
        again = told(f"appliance validate --resume {session.run}", session.address)
        text = f"job {job.id} goes on. It is waited for again by: {again}. It is ended by, on {job.control}: scancel {job.id}"
        session.tell(Message(text=text, level="warning"))


def _with_container(session: Session, container: JobContainer) -> Session:
    """Raises ConfigError where the site brings no containers into jobs."""
    site = session.site
    if site.slurm.containers is None:
        raise ConfigError(
            f"site {site.name} has no section slurm.containers, so no job of it runs in a container",
            "add the section (docs/containers.md) and appliance deploy --stage slurm, or leave --container-image out",
        )
    containers = site.slurm.containers.model_copy(update={"benchmark": container})
    slurm = site.slurm.model_copy(update={"containers": containers})
    return replace(session, site=site.model_copy(update={"slurm": slurm}))


def with_gates(session: Session, view: View, record: RunRecord, ids: Collection[str]) -> RunRecord:
    """``record`` with the verdict on the site; the gates of these ids decide with the checks.

    On simulated hardware a gate decides nothing.
    """
    judged = with_acceptance(session, view, record)
    if judged.acceptance is None or record.simulated:
        return judged
    gates = gates_verdict(gate for gate in judged.acceptance.gates if gate.id in ids)
    return judged.model_copy(update={"verdict": worse(record.verdict, gates)})
