"""Benchmarks are run once for a state of the site: what rests on them is compared as it is after the run."""

from dataclasses import replace

import pytest

from appliance.benchmarks.benchmark import Benchmark, Outcome
from appliance.checks.check import View
from appliance.engine.look.gather import Round, Unanswered
from appliance.engine.look.run_record import Findings, record_of
from appliance.engine.plan.planning import make_plan
from appliance.engine.plan.prepare import prepare
from appliance.engine.plan.selection import Filters, Selection, select
from appliance.engine.run import validate_stage
from appliance.engine.run.benchmark_runs import run_benchmarks, with_settings
from appliance.engine.run.cluster_stage_run import ClusterOutcome
from appliance.engine.run.cluster_stages import run_cluster_stage, with_cluster
from appliance.engine.session import Session
from appliance.models.events import StageStarted
from appliance.models.facts import HostFacts
from appliance.models.plan import Action, Plan
from appliance.models.profile import Limit
from appliance.models.result import CheckResult, Measurement, Status, Verdict, overall
from appliance.models.run import StageState, Table
from appliance.report.html.page import figures
from appliance.stages.context import RoleContext, Variables
from appliance.stages.validate.stage import STAGE as VALIDATE
from tests.support.engine_fakes import Recorder, receipt_of, stage_of
from tests.support.engine_session import hosts, recorder, session
from tests.support.facts import facts_of

__all__ = ["hosts", "recorder", "session"]

HOSTS = ("head", "gpu-1", "gpu-2")


def _variables(context: RoleContext) -> Variables:
    """What a host shows of the fabric only once it is up."""
    return {"x": sorted(f"{h}:{f.nfs_client}" for h, f in context.facts.items())}


STAGE = stage_of("one", variables=_variables)


@pytest.fixture(autouse=True)
def _one_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validate_stage, "STAGES", (STAGE,))
    _measured(monkeypatch, Status.PASS)


def _measured(monkeypatch: pytest.MonkeyPatch, status: Status, *, required: bool = True) -> None:
    """What the benchmarks come to from now on."""
    result = CheckResult(id="slurm.job", target="cluster", status=status, required=required)
    done = ClusterOutcome(measured=Outcome((result,)))
    monkeypatch.setattr(validate_stage, "run_benchmarks", lambda *_: done)


def _facts(client: str, fingerprint: str = "", boot: str = "") -> dict[str, HostFacts]:
    receipts = {"one": receipt_of("one", fingerprint)} if fingerprint else {}
    seen = {h: facts_of(h, nfs_client=client, receipts=receipts) for h in HOSTS}
    if boot:
        seen["gpu-1"] = facts_of(
            "gpu-1",
            nfs_client=client,
            receipts=receipts,
            os=seen["gpu-1"].os.model_copy(update={"boot_id": boot}),
        )
    return seen


def _planned(session: Session, facts: dict[str, HostFacts], **flags: object) -> Plan:
    found = Round(facts, {})
    prepared = prepare(session, facts, (STAGE,))
    filters = Filters(**flags)  # type: ignore[arg-type]
    selection = Selection(stages=(STAGE,), cluster=(VALIDATE,), filters=filters)
    plan = make_plan(session, found, prepared, selection)
    return with_cluster(session, found, selection, plan)


def _validated(session: Session, plan: Plan, found: Round, *known: CheckResult) -> Findings:
    findings = Findings(results=list(known))
    run_cluster_stage(session, VALIDATE, plan, findings, lambda: found)
    return findings


def _first_run(session: Session) -> str:
    """A deployment that finds the fabric unknown and leaves it known; returns the fingerprint it left."""
    plan = _planned(session, _facts(""))
    assert {c.action for c in plan.by_stage("validate")} == {Action.RUN}
    after = _facts("kernel")
    _validated(session, plan, Round(after, {}))
    return prepare(session, after, (STAGE,))["one", "head"].fingerprint


def _again(session: Session, facts: dict[str, HostFacts], **flags: object) -> set[Action]:
    return {c.action for c in _planned(session, facts, **flags).by_stage("validate")}


def test_site_that_was_unknown_before_its_first_run_is_validated_once(session: Session) -> None:
    fingerprint = _first_run(session)
    assert _again(session, _facts("kernel", fingerprint)) == {Action.SKIP}


@pytest.mark.parametrize(("required", "action"), [(True, Action.RUN), (False, Action.SKIP)])
def test_what_could_not_be_measured_is_tried_again(
    required: bool, action: Action, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    _measured(monkeypatch, Status.NOT_ASSESSED, required=required)
    fingerprint = _first_run(session)
    assert _again(session, _facts("kernel", fingerprint)) == {action}


def test_measuring_something_by_itself_asks_for_nothing_new(session: Session) -> None:
    fingerprint = _first_run(session)
    session.journal.append("r2", "run_started", verb="validate")
    session.journal.append("r2", "measured", name="gpt3")
    assert _again(session, _facts("kernel", fingerprint)) == {Action.SKIP}


def test_other_boot_is_another_state(session: Session) -> None:
    fingerprint = _first_run(session)
    assert _again(session, _facts("kernel", fingerprint, boot="later")) == {Action.RUN}


def test_other_limit_is_another_state(session: Session) -> None:
    fingerprint = _first_run(session)
    bound = Limit(value=1.0, unit="MB/s", source="site")
    site = session.site.model_copy(update={"limits": {"storage.roundtrip": bound}})
    assert _again(replace(session, site=site), _facts("kernel", fingerprint)) == {Action.RUN}


def test_repair_in_between_is_another_state(session: Session) -> None:
    fingerprint = _first_run(session)
    session.journal.append("r2", "host_started", stage="one", host="gpu-1", why="drift")
    assert _again(session, _facts("kernel", fingerprint)) == {Action.RUN}


def test_benchmarks_that_are_asked_for_by_name_run(session: Session) -> None:
    fingerprint = _first_run(session)
    assert _again(session, _facts("kernel", fingerprint), stages=("validate",)) == {Action.RUN}


def test_part_of_a_site_whose_benchmarks_could_not_run_is_not_called_good(
    session: Session,
) -> None:
    facts = _facts("kernel")
    silent = {"gpu-2": Unanswered("gpu-2", "it does not answer", "power it on")}
    del facts["gpu-2"]
    found = Round(facts, silent)
    selection = select(session.site, Filters(limit=("gpu-1",), stages=("validate",)))
    plain = Plan(site="acme", profile="hpc", hosts=("gpu-1",), stages=())
    plan = with_cluster(session, found, selection, plain)
    good = CheckResult(id="host.reachable", target="gpu-1", status=Status.PASS)
    record = record_of(session, found, _validated(session, plan, found, good))
    assert record.verdict is Verdict.INCOMPLETE
    assert "stage.validate: not run here: other stages must succeed on all hosts first" in str(
        record.not_assessed
    )


def test_benchmarks_an_interrupt_left_out_have_no_verdict(session: Session) -> None:
    view = View(session.profile, session.site, _facts("kernel"))

    def run(view: View, remote: object) -> Outcome:
        session.cancelled.set()
        return Outcome((CheckResult(id="a.one", target="cluster", status=Status.PASS),))

    chosen = tuple(Benchmark(n, n, (f"{n}.one",), run, 1.0, "") for n in ("a", "b"))
    done = run_benchmarks(session, view, HOSTS, chosen)
    assert done.state is StageState.NOT_RUN
    assert {r.id: r.status for r in done.measured.results} == {
        "a.one": Status.PASS,
        "b.one": Status.NOT_ASSESSED,
    }
    assert overall(done.measured.results) is Verdict.INCOMPLETE


def test_a_benchmark_is_expected_to_take_as_long_as_last_time(
    session: Session, recorder: Recorder
) -> None:
    view = View(session.profile, session.site, _facts("kernel"))
    done = Outcome((CheckResult(id="a.one", target="cluster", status=Status.PASS),))
    a, b = (Benchmark(n, n, (f"{n}.one",), lambda *_: done, 20.0, "") for n in ("a", "b"))

    def expected(known: dict[str, Outcome]) -> float:
        run_benchmarks(session, view, HOSTS, (a, b), known)
        return [e for e in recorder.events if isinstance(e, StageStarted)][-1].expected_seconds or 0

    assert expected({"b": done}) == 20 * 60
    assert 20 * 60 <= expected({}) < 21 * 60
    assert expected({}) < 60


def test_one_that_is_told_how_long_to_last_is_expected_to(
    session: Session, recorder: Recorder
) -> None:
    asked = Limit(value=24, unit="h", source="contract")
    profile = session.profile.model_copy(update={"limits": {}})
    view = View(profile, session.site.model_copy(update={"limits": {}}), _facts("kernel"))
    site = View(profile, view.site.model_copy(update={"limits": {"a.one": asked}}), view.facts)
    done = Outcome((CheckResult(id="a.one", target="cluster", status=Status.PASS),))
    hours = Benchmark("a", "a", ("a.one",), lambda *_, **__: done, 480.0, "", timed="a.one")
    for seen, minutes, expected in (
        (view, 3, 180),
        (view, 0, 480 * 60),
        (site, 0, 24 * 3600),
        (site, 60, 3600),
    ):
        chosen = (with_settings(hours, {"minutes": minutes}),)
        run_benchmarks(session, seen, HOSTS, chosen)
        started = [e for e in recorder.events if isinstance(e, StageStarted)][-1]
        assert started.expected_seconds == expected


def test_recalled_tables_and_figures_say_which_run_they_are_of(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = CheckResult(id="slurm.job", target="cluster", status=Status.PASS)
    rate = Measurement(name="gpt3", value=48_000.0, unit="tokens/s", detail={"gpus": 8})
    table = Table(title="Throughput", columns=("", "1 node"), rows=(("x", 1),), note="batch 2048")
    done = ClusterOutcome(measured=Outcome((result,), (rate,), (table,)))
    monkeypatch.setattr(validate_stage, "run_benchmarks", lambda *_: done)
    fingerprint = _first_run(session)
    facts = _facts("kernel", fingerprint)
    findings = _validated(session, _planned(session, facts), Round(facts, {}))
    mark = "measured in run r1; nothing has changed since"
    assert findings.tables[0].note == f"batch 2048; {mark}"
    assert findings.measurements[0].detail["recalled"] == mark
    record = record_of(session, Round(facts, {}), findings)
    assert mark in figures(record)[2].note


def test_a_benchmark_that_failed_is_the_cause_of_its_stage(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = {"id": "slurm.job", "target": "cluster", "status": "fail", "fix": "see its output"}
    failed = Outcome((CheckResult.model_validate(known),))
    done = ClusterOutcome(StageState.FAILED, measured=failed)
    monkeypatch.setattr(validate_stage, "run_benchmarks", lambda *_: done)
    facts = _facts("kernel", "x")
    findings = _validated(session, _planned(session, facts), Round(facts, {}))
    told = {(o.cause, o.fix) for o in findings.outcomes}
    assert told == {("benchmarks failed: slurm.job", "see its output")}


def test_a_benchmark_that_no_reader_foresaw_is_an_error_and_the_next_one_runs(
    session: Session,
) -> None:
    def breaks(*_: object) -> Outcome:
        raise OverflowError("a number that no float holds")

    fine = CheckResult(id="slurm.job", target="cluster", status=Status.PASS)
    given = {"title": "one", "minutes": 1.0, "explain": ""}
    odd = Benchmark(name="odd", checks=("fio.scratch_read",), run=breaks, **given)  # type: ignore[arg-type]
    good = Benchmark(name="good", checks=("slurm.job",), run=lambda *_: Outcome((fine,)), **given)  # type: ignore[arg-type]
    view = View(session.profile, session.site, {})
    done = run_benchmarks(session, view, HOSTS, (odd, good))
    first, second = done.measured.results
    assert (first.status, second.status) == (Status.ERROR, Status.PASS)
    assert "OverflowError" in first.cause
