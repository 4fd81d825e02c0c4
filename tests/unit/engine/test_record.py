"""The record of a run says what it did not do: a stage that was left out is no good stage."""

from appliance.engine.gather import Round
from appliance.engine.record import Findings, record_of
from appliance.engine.session import Session
from appliance.models.result import CheckResult, Status, Verdict
from appliance.models.run import RunRecord, StageOutcome, StageState
from appliance.report.html import checks
from tests.facts import facts_of

GOOD = CheckResult(id="host.reachable", target="gpu-1", status=Status.PASS)


def _record(
    session: Session, outcomes: list[StageOutcome], results: list[CheckResult], narrowed: str = ""
) -> RunRecord:
    found = Round({h.name: facts_of(h.name) for h in session.site.hosts}, {})
    findings = Findings(outcomes=outcomes, results=results, narrowed=narrowed)
    return record_of(session, found, findings)


def _left(host: str, why: str, stage: str = "gpu") -> StageOutcome:
    return StageOutcome(stage=stage, host=host, state=StageState.NOT_RUN, why=why)


def test_host_that_was_away_when_the_run_was_planned_leaves_it_incomplete(
    session: Session,
) -> None:
    record = _record(session, [_left("gpu-1", "it does not answer")], [GOOD])
    assert record.verdict is Verdict.INCOMPLETE
    assert record.not_assessed == ("stage.gpu: not run here: it does not answer (gpu-1)",)
    (left,) = [r for r in record.results if r.status is not Status.PASS]
    assert (left.name, left.fix) == (
        "stage.gpu gpu-1",
        "deploy again: only what is not finished is done",
    )


def test_stage_left_out_behind_a_failure_is_not_told_twice(session: Session) -> None:
    failed = StageOutcome(stage="base", host="gpu-1", state=StageState.FAILED, cause="no disk")
    record = _record(session, [failed, _left("gpu-1", "gpu-1 went away in stage base")], [])
    assert [r.id for r in record.results] == ["stage.base"]
    silent = GOOD.model_copy(update={"status": Status.FAIL, "cause": "it does not answer"})
    record = _record(session, [_left("gpu-1", "it does not answer")], [silent])
    assert [r.id for r in record.results] == ["host.reachable"]


def test_stage_that_was_judged_unfinished_keeps_its_own_words(session: Session) -> None:
    said = CheckResult(
        id="stage.gpu", target="gpu-1", status=Status.NOT_ASSESSED, cause="is not finished"
    )
    record = _record(session, [_left("gpu-1", "it does not answer")], [GOOD, said])
    assert [r.cause for r in record.results if r.id == "stage.gpu"] == ["is not finished"]


def test_what_follows_from_a_failure_the_run_did_not_judge_is_still_not_assessed(
    session: Session,
) -> None:
    unknown = CheckResult(
        id="storage.mount",
        target="gpu-1",
        status=Status.NOT_ASSESSED,
        cause="the mount hangs",
        explained_by="storage.server storage-1",
    )
    record = _record(session, [], [GOOD, unknown], narrowed="--limit gpu-1")
    assert record.not_assessed == ("storage.mount: the mount hangs (gpu-1)",)
    bare = record.model_copy(update={"not_assessed": ()})
    assert checks.unassessed(bare) == ("storage.mount on gpu-1: the mount hangs",)
    cause = CheckResult(id="storage.server", target="storage-1", status=Status.FAIL, cause="down")
    assert _record(session, [], [cause, unknown]).not_assessed == ()
