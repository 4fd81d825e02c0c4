"""Logs of finished GPT-3 runs: judged alone, or added to the record of a site. Contacts no host."""

from collections.abc import Mapping
from pathlib import Path

from appliance.actions.benchmarks.validate import choose, with_gates
from appliance.actions.profiles.limit_bounds import check_ids
from appliance.actions.sites.opening import Target, open_session
from appliance.benchmarks.benchmark import Outcome
from appliance.benchmarks.gpt3 import papers
from appliance.benchmarks.gpt3.described import Hardware
from appliance.benchmarks.gpt3.judge import THROUGHPUT
from appliance.benchmarks.gpt3.recorded import Recording, recording
from appliance.benchmarks.gpt3.reference import load
from appliance.checks.check import View
from appliance.config.load import load_profile
from appliance.engine.accept.evidence import Origin, evidence_of, keep_evidence
from appliance.engine.look.fact_history import last_facts
from appliance.engine.look.gather import Round
from appliance.engine.look.run_record import Findings, record_of, save, simulated_areas
from appliance.engine.look.survey import view_of
from appliance.engine.session import Session
from appliance.errors import ConfigError
from appliance.models.events import Observer
from appliance.models.evidence import Evidence, Source
from appliance.models.facts import HostFacts
from appliance.models.run import Expected, RunRecord, Table
from appliance.models.site import Role

BENCHMARK = "gpt3"


def published_tables() -> tuple[Table, ...]:
    """The tables of both papers, with their inconsistencies."""
    return papers.tables()


def model_named(name: str | None) -> str | None:
    """The published model of that name, ignoring case. Raises ConfigError."""
    known = {model.lower(): model for model in load().models}
    if name is not None and name.lower() not in known:
        raise ConfigError(f"unknown model: {name}", f"models: {', '.join(known.values())}")
    return known[name.lower()] if name else None


def read_logs(folder: Path, profile: str, model: str | None = None) -> Recording:
    """The results of logs for hosts of this profile; records nothing. Raises ConfigError."""
    of = load_profile(profile, check_ids())
    hardware = Hardware(f"profile {of.name}", of.hardware.gpu)
    return recording(
        folder, hardware=hardware, tolerance=of.limits.get(THROUGHPUT), model=model_named(model)
    )


def keep_logs(
    target: Target, folder: Path, observer: Observer, model: str | None = None
) -> tuple[RunRecord, str]:
    """Adds the results of logs to the site's record. Returns the record of this run, and the path of its report.

    Raises ConfigError for logs of other hardware than the site's; then nothing is recorded.
    """
    wanted = model_named(model)
    with open_session(target, "validate", observer, only_looks=True, by_ssh=False) as session:
        known = {h.name: f for h in session.site.hosts if (f := last_facts(session, h.name))}
        whole = view_of(session, Round(known, {}))
        view = _of_class(whole)
        bound = view.limit(THROUGHPUT)
        shown = recording(folder, hardware=_hardware(view), tolerance=bound, model=wanted)
        session.journal.append(session.run, "run_started", verb="validate")
        if bound is not None and len(shown.gpus) == 1 and shown.files:
            keep_evidence(session, _evidence(session, view, folder, shown))
        record = _record(session, shown, known)
        read = {f"{BENCHMARK}.{log.part}" for log in shown.files}
        judged = with_gates(session, whole, record, read)
        save(session, judged)
        session.journal.append(
            session.run, "run_finished", verdict=judged.verdict, interrupted=False
        )
        return judged, str(session.folder_of_run / "report.html")


def _evidence(session: Session, view: View, folder: Path, shown: Recording) -> Evidence:
    first = min(shown.files, key=lambda file: file.began)
    where = f"logs in {folder.absolute()}"
    origin = Origin(Source.LOGS, where, first.began, first.dated_by, shown.files)
    outcome = Outcome(shown.results, shown.measurements, shown.tables)
    (benchmark,) = choose([BENCHMARK])
    return evidence_of(session, view, benchmark, outcome, origin, next(iter(shown.gpus)))


def _of_class(view: View) -> View:
    """The class of the site that the trainings are judged by; the first if several are possible, the site's own if none is."""
    (benchmark,) = choose([BENCHMARK])
    judged = (one for one in view.by_class() if any(not g.blocked for g in benchmark.gates(one)))
    return next(judged, view)


def _hardware(view: View) -> Hardware:
    """The hardware of a class's GPU hosts: from their last answer, else from the profile."""
    expected = view.profile.hardware.gpu
    names = sorted({g.name for f in view.facts.values() if f.gpus for g in f.gpus.devices})
    if names:
        expected = expected.model_copy(update={"models": tuple(names)})
    return Hardware(
        of=f"site {view.site.name}",
        expected=expected,
        hosts=len(view.site.with_role(Role.GPU)),
        gpu=names[0] if len(names) == 1 else None,
    )


def _record(session: Session, shown: Recording, known: Mapping[str, HostFacts]) -> RunRecord:
    """The run without hosts: none was contacted."""
    findings = Findings(
        results=list(shown.results),
        measurements=list(shown.measurements),
        tables=[*shown.tables, *papers.tables()],
    )
    record = record_of(session, Round({}, {}), findings)
    simulated = simulated_areas(session, known)
    return record.model_copy(update={"hosts": (), "expected": Expected(), "simulated": simulated})
