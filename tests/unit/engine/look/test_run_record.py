"""The record of a run says what it did not do: a stage that was left out is no good stage."""

import locale
import os
from dataclasses import replace

import pytest

from appliance import ownership
from appliance.config.secrets import Redactor
from appliance.engine.look import run_record as recording
from appliance.engine.look.gather import Round
from appliance.engine.look.run_record import Findings, record_of, save
from appliance.engine.session import Session
from appliance.models.result import CheckResult, Status, Verdict
from appliance.models.run import Plot, RunRecord, Series, StageOutcome, StageState, Table
from appliance.report.html import checks
from tests.support.facts import facts_of

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
        "deploy again: finished stages are not repeated",
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
    record = _record(session, [], [GOOD, unknown], narrowed="--hosts gpu-1")
    assert record.not_assessed == ("storage.mount: the mount hangs (gpu-1)",)
    bare = record.model_copy(update={"not_assessed": ()})
    assert checks.unassessed(bare) == ("storage.mount on gpu-1: the mount hangs",)
    cause = CheckResult(id="storage.server", target="storage-1", status=Status.FAIL, cause="down")
    assert _record(session, [], [cause, unknown]).not_assessed == ()


@pytest.mark.parametrize("owner", [{}, {"SUDO_UID": "1000"}, {"SUDO_UID": "x", "SUDO_GID": "y"}])
def test_a_report_is_kept_whatever_user_and_locale_the_run_had(
    owner: dict[str, str], session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown() -> str:
        raise KeyError("getpwuid(): uid not found: 4711")

    monkeypatch.setattr("getpass.getuser", unknown)
    for name in ("SUDO_UID", "SUDO_GID"):
        monkeypatch.delenv(name, raising=False)
    for name, value in owner.items():
        monkeypatch.setenv(name, value)
    good = GOOD.model_copy(update={"cause": "Gerät läuft"})
    before = locale.setlocale(locale.LC_CTYPE)
    locale.setlocale(locale.LC_CTYPE, "C")
    try:
        save(session, _record(session, [], [good]))
    finally:
        locale.setlocale(locale.LC_CTYPE, before)
    text = (session.folder_of_run / "report.json").read_text(encoding="utf-8")
    kept = RunRecord.model_validate_json(text)
    assert (kept.user, kept.results[0].cause) == (f"uid-{os.getuid()}", "Gerät läuft")
    assert len(list(session.journal.entries("result"))) == len(kept.results)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
@pytest.mark.parametrize(
    ("of_site", "group_of", "owner", "mode"),
    [(54321, "", 54321, 0o700), (0, "", 0, 0o750), (0, "group users", 0, 0o700)],
)
def test_under_sudo_runs_belong_to_whom_the_site_belongs(
    of_site: int,
    group_of: str,
    owner: int,
    mode: int,
    session: Session,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SUDO_UID", "54321")
    monkeypatch.setenv("SUDO_GID", "54321")
    monkeypatch.setattr(recording, "strangers_of", lambda *_: group_of)
    os.chown(session.folder, of_site, 0)
    session.folder_of_run.mkdir(mode=0o700)
    save(session, _record(session, [], [GOOD]))
    state = session.folder_of_run.stat()
    assert (state.st_uid, state.st_mode & 0o777) == (owner, mode)
    ownership.require(session.folder_of_run / "report.html")


@pytest.mark.parametrize(
    "word", ["user", "site", "passed", "pass", "version", "measured", "ideal", "2026", "true"]
)
def test_a_secret_that_is_a_word_of_the_form_harms_no_report(session: Session, word: str) -> None:
    session = replace(session, redact=Redactor((word,)))
    result = GOOD.model_copy(update={"status": Status.FAIL, "cause": f"it said {word}"})
    plot = Plot(title=word, x_label="x", y_label="y", series=(Series(label=word, points=()),))
    table = Table(title="t", columns=("a",), rows=(("b",),), plot=plot)
    record = _record(session, [], [result]).model_copy(update={"tables": (table,)})
    save(session, record)
    text = (session.folder_of_run / "report.json").read_text()
    kept = RunRecord.model_validate_json(text)
    assert [r.cause for r in kept.results] == ["it said ***"]
    assert kept.tables[0].plot is not None
    assert kept.tables[0].plot.title == "***"
    assert kept.tables[0].plot.series[0].kind == "measured"
