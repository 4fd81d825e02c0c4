"""Reports are read back from where runs left them, and say so plainly when there are none."""

import os
from pathlib import Path

import pytest

from appliance.actions.sites import reports
from appliance.errors import ApplianceError
from appliance.models.result import Verdict
from tests.support.left_reports import leave


def test_last_run_is_the_default_and_others_have_names(tmp_path: Path) -> None:
    leave(tmp_path, "2026-11-20T10-00-00")
    leave(tmp_path, "2026-11-20T11-00-00", Verdict.FAILED)
    assert reports.load(tmp_path).record.verdict is Verdict.FAILED
    assert reports.load(tmp_path, "2026-11-20T10-00-00").record.verdict is Verdict.PASSED


def test_no_run_is_one_line_with_the_next_step(tmp_path: Path) -> None:
    with pytest.raises(ApplianceError, match="no reports in") as caught:
        reports.load(tmp_path)
    assert "appliance deploy" in caught.value.hint
    with pytest.raises(ApplianceError, match="no report of run x"):
        reports.load(tmp_path, "x")


def test_damaged_report_is_named(tmp_path: Path) -> None:
    leave(tmp_path, "r1")
    (tmp_path / "r1" / "report.json").write_text("{")
    with pytest.raises(ApplianceError, match=r"r1/report\.json cannot be read"):
        reports.load(tmp_path)


def test_a_report_that_is_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    leave(tmp_path, "r-1")
    file = tmp_path / "r-1/report.json"
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(
        ApplianceError, match=r"report\.json cannot be read: it is not a regular file"
    ):
        reports.load(tmp_path)
