"""Validate: the benchmarks of the cluster, alone or as the last stage of a deployment."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from appliance.actions.benchmarks.resume import BenchmarkRequest, resumed_request, store_request
from appliance.actions.benchmarks.through_pods import Pods, through
from appliance.actions.deployment.facts_and_plan import take_facts
from appliance.actions.sites.interrupts import interruptible
from appliance.actions.sites.opening import Target, open_session
from appliance.benchmarks import BENCHMARKS, of_deployment
from appliance.benchmarks.benchmark import Benchmark, Outcome
from appliance.checks.check import View, not_assessed
from appliance.engine.accept.acceptance import with_acceptance
from appliance.engine.look.judge import judge_all
from appliance.engine.look.run_record import Findings, record_of, save
from appliance.engine.look.survey import view_of
from appliance.engine.run.benchmark_jobs import open_jobs
from appliance.engine.run.benchmark_runs import AGAIN, run_benchmarks, with_settings
from appliance.engine.run.lease import all_hosts, leased_by_run
from appliance.engine.session import Session
from appliance.errors import ConfigError
from appliance.models.acceptance import gates_verdict
from appliance.models.events import Message, Observer
from appliance.models.result import CheckResult, Status, worse
from appliance.models.run import RunRecord
from appliance.report.advice import told
from appliance.stages.slurm.site import JobContainer


def choose(names: Sequence[str]) -> tuple[Benchmark, ...]:
    """The benchmarks of these names. Raises ConfigError."""
    known = {b.name: b for b in BENCHMARKS}
    for name in names:
        if name not in known:
            raise ConfigError(f"unknown benchmark: {name}", f"available: {', '.join(known)}")
    return tuple(known[n] for n in names)


def validate(
    target: Target,
    names: Sequence[str],
    observer: Observer,
    container: JobContainer | None = None,
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    pods: Pods | None = None,
    left_out: tuple[str, ...] = (),
) -> tuple[RunRecord, str]:
    """Runs benchmarks on the current site; no name means those of a deployment. Returns the record, and the path of its report.

    ``container``: replaces the site's container for gpt3; ``settings``: the settings by benchmark. ``pods``: hosts of
    Kubernetes are reached through it. ``left_out``: the benchmarks not chosen, and why. Raises KeyboardInterrupt after an
    interrupt, once the results so far are saved.
    """
    named = choose(names)
    alone = not named or any(b.holds for b in named)
    with (
        open_session(target, "validate", observer, keeps=True, alone=alone) as opened,
        through(opened, pods) as session,
    ):
        chosen = tuple(b.name for b in named or of_deployment(session.site))
        asked = BenchmarkRequest(
            chosen, container, settings or {}, left_out, bool(names) and not left_out
        )
        session.journal.append(session.run, "run_started", verb="validate")
        store_request(session, asked, ("--through kubernetes",) if pods else ())
        return _carried_out(session, asked, {}, opened)


def resume(target: Target, run: str, observer: Observer) -> tuple[RunRecord, str]:
    """Resumes a run that ended before its benchmarks did: results are kept, running jobs are waited for.

    Raises ConfigError for a run that is complete, or not a benchmark run.
    """
    with open_session(target, "validate", observer, keeps=True, alone=True, run=run) as session:
        asked, known = resumed_request(session)
        session.journal.append(run, "run_resumed")
        return _carried_out(session, asked, known, session)


def _carried_out(
    opened: Session, asked: BenchmarkRequest, known: Mapping[str, Outcome], direct: Session
) -> tuple[RunRecord, str]:
    """``known``: the results of this run before it was interrupted; ``direct``: the session that reaches every host by SSH."""
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
        why = f"not run: no answer from {', '.join(found.unanswered)}"
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
        _report_running_jobs(session)
        raise KeyboardInterrupt
    return record, str(session.folder_of_run / "report.html")


def as_owed(chosen: Sequence[Benchmark], results: Sequence[CheckResult]) -> list[CheckResult]:
    """Of benchmarks without a result: remedies are required, because the benchmarks were named."""
    unknown = {Status.SKIP, Status.NOT_ASSESSED}
    shown = {r.id for r in results if r.status not in unknown or r.value is not None}
    silent = {check for b in chosen if not shown.intersection(b.checks) for check in b.checks}
    return [
        r.model_copy(update={"required": True}) if r.id in silent and r.fix else r for r in results
    ]


def deciding(chosen: Sequence[Benchmark], view: View) -> set[str]:
    """The gates that a run of these benchmarks decides; a gate that no evidence can close matters to acceptance only."""
    gates = (wanted for benchmark in chosen for wanted in benchmark.requirements(view))
    return {wanted.id for wanted in gates if not wanted.forever}


def _report_running_jobs(session: Session) -> None:
    """Stopping the program does not stop the jobs it has submitted."""
    for job in open_jobs(session):
        again = told(f"appliance validate --resume {session.run}", session.address)
        text = f"job {job.id} keeps running. To wait for it again: {again}. To cancel it, on {job.control}: scancel {job.id}"
        session.tell(Message(text=text, level="warning"))


def _with_container(session: Session, container: JobContainer) -> Session:
    """Raises ConfigError if the site does not configure containers for jobs."""
    site = session.site
    if site.slurm_options.containers is None:
        raise ConfigError(
            f"site {site.name} has no section slurm.containers, so its jobs cannot run in a container",
            "add the section (docs/containers.md) and run appliance deploy --stage slurm, or remove --container-image",
        )
    containers = site.slurm_options.containers.model_copy(update={"benchmark": container})
    slurm = site.slurm_options.model_copy(update={"containers": containers})
    return replace(session, site=site.model_copy(update={"slurm": slurm}))


def with_gates(session: Session, view: View, record: RunRecord, ids: Collection[str]) -> RunRecord:
    """``record`` with the verdict on the site; the gates of these ids are judged together with the checks.

    On simulated hardware, gates decide nothing.
    """
    judged = with_acceptance(session, view, record)
    if judged.acceptance is None or record.simulated:
        return judged
    gates = gates_verdict(gate for gate in judged.acceptance.gates if gate.id in ids)
    return judged.model_copy(update={"verdict": worse(record.verdict, gates)})
