"""Runs benchmarks one after the other and stores what each measured as evidence."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from types import MappingProxyType
from typing import Any

from appliance.benchmarks.benchmark import Benchmark, Outcome
from appliance.checks.check import View, judged, not_assessed, unjudged
from appliance.engine.accept.evidence import BEGUN, begin, keep_run, minutes_taken, named
from appliance.engine.run.benchmark_jobs import JournalBook, has_submitted
from appliance.engine.run.cluster_stage_run import ClusterOutcome, run_reported
from appliance.engine.run.own_cluster import at_its_door
from appliance.engine.session import Session
from appliance.errors import ApplianceError
from appliance.models.events import HostTask
from appliance.models.result import CLUSTER, CheckResult, Status, place
from appliance.models.run import StageState
from appliance.stages.validate.stage import STAGE
from appliance.text import plural

INTERRUPTED, AGAIN = "interrupted before it ran", "appliance validate"


def run_benchmarks(
    session: Session,
    view: View,
    hosts: Sequence[str],
    chosen: Sequence[Benchmark],
    known: Mapping[str, Outcome] = MappingProxyType({}),
) -> ClusterOutcome:
    """Run benchmarks one after the other, each on an idle cluster. A crash of one is an error and does not stop the
    others.
    ``known``: earlier results by name; on a site of several classes by name/class.
    """
    last = minutes_taken(session)
    expected = sum(
        _minutes(benchmark, one, last)
        for benchmark in chosen
        for one, profile in _parts(benchmark, view)
        if named(benchmark.name, profile) not in known
    )

    def work() -> ClusterOutcome:
        results: list[CheckResult] = []
        rest = Outcome()
        for benchmark in chosen:
            if session.cancelled.is_set():
                results += _interrupted(benchmark)
                continue
            for host in hosts:
                session.tell(HostTask(stage=STAGE.name, host=host, task=benchmark.title))
            for part, profile in _parts(benchmark, view):
                one = known.get(named(benchmark.name, profile))
                if one is None and session.cancelled.is_set():
                    one = Outcome(_interrupted(benchmark))
                one = _of_class(one or _recorded(session, part, benchmark, profile), profile)
                results += one.results
                rest = Outcome((), rest.measurements + one.measurements, rest.tables + one.tables)
        bad = any(r.status in {Status.FAIL, Status.ERROR} for r in results)
        state = StageState.FAILED if bad else StageState.DONE
        return ClusterOutcome(
            StageState.NOT_RUN if session.cancelled.is_set() else state,
            measured=replace(rest, results=tuple(results)),
            note=plural(len(results), "check"),
        )

    return run_reported(session, STAGE.name, hosts, expected, work)


def _interrupted(benchmark: Benchmark) -> tuple[CheckResult, ...]:
    return tuple(not_assessed(CLUSTER, INTERRUPTED, fix=AGAIN).of(i) for i in benchmark.checks)


def _parts(benchmark: Benchmark, view: View) -> tuple[tuple[View, str], ...]:
    """Yield the views it runs on, each with its class if the site has several."""
    views = benchmark.views(view)
    return tuple((one, one.profile.name if len(views) > 1 else "") for one in views)


def _of_class(outcome: Outcome, profile: str) -> Outcome:
    """Run over several classes; results about the cluster become results about a class."""
    if not profile:
        return outcome
    return replace(
        outcome,
        results=tuple(
            result if result.host else result.at(place(CLUSTER, profile, *result.parts))
            for result in outcome.results
        ),
        measurements=tuple(
            m.model_copy(update={"target": f"{CLUSTER}/{profile}{m.target.removeprefix(CLUSTER)}"})
            if m.target.partition("/")[0] == CLUSTER
            else m
            for m in outcome.measurements
        ),
        tables=tuple(
            t.model_copy(update={"title": f"{t.title}, {profile}"}) for t in outcome.tables
        ),
    )


def with_settings(benchmark: Benchmark, given: Mapping[str, Any] | None) -> Benchmark:
    """Return the benchmark with the parameters of its run."""
    if not given:
        return benchmark
    lasts = given.get("minutes") if benchmark.timed else None
    found = replace(benchmark, run=partial(benchmark.run, **given))
    return replace(found, minutes=float(lasts), told=True) if lasts else found


def _minutes(benchmark: Benchmark, view: View, last: Mapping[str, float]) -> float:
    """Return the expected duration."""
    if not benchmark.timed:
        return last.get(benchmark.name, benchmark.minutes)
    hours = None if benchmark.told else view.number(benchmark.timed)
    return hours[0] * 60 if hours else benchmark.minutes


def _recorded(session: Session, view: View, benchmark: Benchmark, profile: str) -> Outcome:
    """Run one benchmark, and store what it measured in the site's journal. An interrupted run measured nothing."""
    began = begun(session, benchmark, profile)
    outcome = _run(session, view, benchmark, profile)
    if not session.cancelled.is_set():
        keep_run(session, view, benchmark, outcome, began)
    return outcome


def _run(session: Session, view: View, benchmark: Benchmark, profile: str) -> Outcome:
    if benchmark.submits:
        book = JournalBook(session, named(benchmark.name, profile))
        benchmark = with_settings(benchmark, {"book": book})
    try:
        with at_its_door(session, benchmark) as inside:
            return benchmark.run(view, inside.remote)
    except ApplianceError as error:
        return Outcome(
            tuple(
                judged(
                    error.host or CLUSTER,
                    Status.ERROR,
                    cause=session.redact(error.message),
                    fix=error.hint,
                ).of(check)
                for check in benchmark.checks
            )
        )
    except Exception as error:  # noqa: BLE001 - a host prints what it likes: what no reader foresaw ends this benchmark alone
        said = unjudged(CLUSTER, "the hosts", error)
        return Outcome(tuple(said.of(check) for check in benchmark.checks))


def begun(session: Session, benchmark: Benchmark, profile: str = "") -> datetime:
    """Return when its measurement began: now, or before an interruption if this run has submitted a job since."""
    name = named(benchmark.name, profile)
    if has_submitted(session, name):
        for entry in session.journal.entries(BEGUN, run=session.run):
            if entry.data.get("benchmark") == name:
                return entry.time
    begin(session, benchmark, profile)
    return datetime.now(UTC)
