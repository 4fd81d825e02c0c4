"""Benchmarks at work, one after the other: what each shows, and what of it is evidence."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from types import MappingProxyType
from typing import Any

from appliance.benchmarks import OF_DEPLOYMENT
from appliance.benchmarks.benchmark import Benchmark, Outcome
from appliance.checks.check import View, judged, not_assessed
from appliance.engine.evidence import BEGUN, begin, keep_run, minutes_taken
from appliance.engine.jobs import JournalBook, has_submitted
from appliance.engine.session import Session
from appliance.engine.turn import Done, turn
from appliance.errors import ApplianceError
from appliance.models.events import HostTask
from appliance.models.result import CLUSTER, CheckResult, Status
from appliance.models.run import StageState
from appliance.stages.validate.stage import STAGE
from appliance.text import plural

INTERRUPTED, AGAIN = "interrupted before it ran", "appliance validate"


def run_benchmarks(
    session: Session,
    view: View,
    hosts: Sequence[str],
    chosen: Sequence[Benchmark] = OF_DEPLOYMENT,
    known: Mapping[str, Outcome] = MappingProxyType({}),
) -> Done:
    """Benchmarks one after the other, each on a quiet cluster. One that breaks is an error, not an end.

    ``known``: by name what was shown already.
    """
    last = minutes_taken(session)
    expected = sum(_minutes(b, view, last) for b in chosen if b.name not in known)

    def work() -> Done:
        results: list[CheckResult] = []
        rest = Outcome()
        for benchmark in chosen:
            if session.cancelled.is_set():
                results += [
                    not_assessed("cluster", INTERRUPTED, fix=AGAIN).of(i) for i in benchmark.checks
                ]
                continue
            for host in hosts:
                session.tell(HostTask(stage=STAGE.name, host=host, task=benchmark.title))
            one = known.get(benchmark.name) or _recorded(session, view, benchmark)
            results += one.results
            rest = Outcome((), rest.measurements + one.measurements, rest.tables + one.tables)
        bad = any(r.status in {Status.FAIL, Status.ERROR} for r in results)
        state = StageState.FAILED if bad else StageState.DONE
        return Done(
            StageState.NOT_RUN if session.cancelled.is_set() else state,
            measured=replace(rest, results=tuple(results)),
            note=plural(len(results), "check"),
        )

    return turn(session, STAGE.name, hosts, expected, work)


def with_settings(benchmark: Benchmark, given: Mapping[str, Any] | None) -> Benchmark:
    """The benchmark with what its run is given."""
    if not given:
        return benchmark
    lasts = given.get("minutes") if benchmark.timed else None
    found = replace(benchmark, run=partial(benchmark.run, **given))
    return replace(found, minutes=float(lasts), told=True) if lasts else found


def _minutes(benchmark: Benchmark, view: View, last: Mapping[str, float]) -> float:
    """How long it is expected to take."""
    if not benchmark.timed:
        return last.get(benchmark.name, benchmark.minutes)
    hours = None if benchmark.told else view.number(benchmark.timed)
    return hours[0] * 60 if hours else benchmark.minutes


def _recorded(session: Session, view: View, benchmark: Benchmark) -> Outcome:
    """Runs one benchmark, and enters into the site's record what it measured. One that was cut off measured nothing."""
    began = begun(session, benchmark)
    outcome = _run(session, view, benchmark)
    if not session.cancelled.is_set():
        keep_run(session, view, benchmark, outcome, began)
    return outcome


def _run(session: Session, view: View, benchmark: Benchmark) -> Outcome:
    if benchmark.submits:
        benchmark = with_settings(benchmark, {"book": JournalBook(session, benchmark.name)})
    try:
        return benchmark.run(view, session.remote)
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


def begun(session: Session, benchmark: Benchmark) -> datetime:
    """When its measuring began: now, or before this run was cut off where it has submitted a job since then."""
    if has_submitted(session, benchmark.name):
        for entry in session.journal.entries(BEGUN, run=session.run):
            if entry.data.get("benchmark") == benchmark.name:
                return entry.time
    begin(session, benchmark)
    return datetime.now(UTC)
