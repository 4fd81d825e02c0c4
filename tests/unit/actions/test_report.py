"""Reports are read back from where runs left them, and say so plainly when there are none."""

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from appliance.actions import report
from appliance.errors import ApplianceError
from appliance.models.result import Verdict
from appliance.models.run import RunRecord


def leave(folder: Path, run: str, verdict: Verdict = Verdict.PASSED) -> None:
    now = datetime.now(UTC)
    record = RunRecord(
        run=run,
        verb="deploy",
        site="acme",
        profile="hpc",
        started=now,
        finished=now,
        user="root",
        appliance="0.1.0",
        control_host="head",
        verdict=verdict,
    )
    (folder / run).mkdir(parents=True)
    (folder / run / "report.json").write_text(record.model_dump_json())


def test_last_run_is_the_default_and_others_have_names(tmp_path: Path) -> None:
    leave(tmp_path, "2026-11-20T10-00-00")
    leave(tmp_path, "2026-11-20T11-00-00", Verdict.FAILED)
    assert report.load(tmp_path).record.verdict is Verdict.FAILED
    assert report.load(tmp_path, "2026-11-20T10-00-00").record.verdict is Verdict.PASSED


def test_no_run_is_one_line_with_the_next_step(tmp_path: Path) -> None:
    with pytest.raises(ApplianceError, match="no report of any run") as caught:
        report.load(tmp_path)
    assert "appliance deploy" in caught.value.hint
    with pytest.raises(ApplianceError, match="no report of run x"):
        report.load(tmp_path, "x")


def test_damaged_report_is_named(tmp_path: Path) -> None:
    leave(tmp_path, "r1")
    (tmp_path / "r1" / "report.json").write_text("{")
    with pytest.raises(ApplianceError, match=r"r1/report\.json cannot be read"):
        report.load(tmp_path)


def test_a_report_that_is_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    leave(tmp_path, "r-1")
    file = tmp_path / "r-1/report.json"
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(ApplianceError, match=r"report\.json cannot be read: it is no file"):
        report.load(tmp_path)
