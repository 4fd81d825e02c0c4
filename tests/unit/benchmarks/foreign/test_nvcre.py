"""A certification by NVIDIA's Cluster Readiness Engine: read in its documented form, shown beside ours, and no gate is closed by it."""

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from appliance.benchmarks import BENCHMARKS
from appliance.benchmarks.foreign import nvcre
from appliance.benchmarks.foreign.shown import ForeignReport, mapped
from appliance.engine.look.probe_requests import ALL_CHECK_IDS
from appliance.errors import ConfigError
from appliance.journal import Journal
from tests.support.command_line import run as command
from tests.support.site_files import ready_site

NOW = datetime.now(UTC)
REDUCE: dict[str, Any] = {
    "domain": "communication",
    "variant": "nccl-all-reduce",
    "status": "Succeeded",
    "runtime": "6m 47s",
    "nodesPerJob": 4,
    "jobs": 1,
    "mnnvl": "Enabled",
    "bandwidth": [
        {"size": "8 GB", "algBW": "1 GB/s", "busBW": "2 GB/s", "samples": 9},
        {"size": "16 GB", "algBW": "470.68 GB/s", "busBW": "882.51 GB/s", "samples": 65},
    ],
}
TRAINED = {
    "domain": "training",
    "variant": "nemotron5-8b",
    "status": "Failed",
    "failureReason": "goodput below \x1b[31mminimum",
    "nodesPerJob": 2,
    "failedGroups": [{"name": "g", "nodeCount": 2, "nodes": ["n1", "n2"], "reason": "stalled"}],
}
REPORT: dict[str, Any] = {
    "name": "gpu-cluster-cert",
    "platform": "onprem",
    "gpu": "h100",
    "totalNodes": 4,
    "excludedNodes": ["n9"],
    "exclusionReason": "cordoned",
    "categories": [REDUCE, TRAINED, {"domain": "new", "variant": "thing", "status": "Succeeded"}],
    "failedNodes": ["n1", "n2", "n3"],
    "result": "FAILED",
}


def read(file: Path, found: object, now: datetime | None = None) -> ForeignReport:
    text = found if isinstance(found, str) else json.dumps(found)
    file.write_text(text)
    assert isinstance(found, str) or nvcre.is_one(text)
    return nvcre.read(file, text, now or datetime.now(UTC) + timedelta(hours=1))


def test_each_category_is_set_against_ours_with_what_was_observed(tmp_path: Path) -> None:
    found = read(tmp_path / "x.json", REPORT)
    assert found.counts == "2 passed, 2 failed, 1 not tested"
    rows = found.table.rows
    assert rows[0][:4] == (
        "passed",
        "communication/nccl-all-reduce, 4 hosts a job, MNNVL Enabled",
        "882.51 GB/s at 16 GB",
        "nccl.cluster",
    )
    assert rows[1][0] == "failed"
    assert rows[1][2] == r"goodput below \x1b[31mminimum; n1, n2: stalled"
    assert rows[1][3] == "gpt3.throughput"
    assert rows[2][3:] == ("", "an item that this program does not know")
    assert rows[3][:3] == ("failed", "hosts", "n3")
    assert rows[4][:3] == ("not tested", "hosts", "n9: cordoned")
    assert "closes no gate" in found.table.note
    assert "foreign" in found.table.title


def test_a_list_of_reports_is_read_as_one_and_null_is_an_empty_list(tmp_path: Path) -> None:
    bare = REPORT | {"categories": None, "failedNodes": None, "excludedNodes": None}
    found = read(tmp_path / "x.json", [REPORT, bare | {"result": "PASSED"}])
    assert found.counts == "2 passed, 2 failed, 1 not tested"
    assert "8 hosts" in found.table.note


@pytest.mark.parametrize("status", ["Pending", "Running", "Tomorrow's"])
def test_a_category_that_did_not_end_is_not_tested_and_nothing_else(
    tmp_path: Path, status: str
) -> None:
    waits = REDUCE | {"status": status, "failureReason": "of another day"}
    found = read(tmp_path / "x.json", REPORT | {"categories": [waits, TRAINED]})
    assert found.counts == "0 passed, 2 failed, 2 not tested"
    assert found.table.rows[0][0] == "not tested"
    assert found.table.rows[0][2] == f"it did not end: {status}"


def test_a_certification_that_failed_without_a_category_is_failed(tmp_path: Path) -> None:
    waits = {"domain": "communication", "variant": "nccl-all-reduce", "status": "Pending"}
    bare = {"name": "cert", "platform": "", "gpu": "", "totalNodes": 0, "failedNodes": None}
    bare |= {"result": "FAILED", "excludedNodes": None}
    for categories, counts in (([waits], "1 failed, 1 not"), (None, "1 failed, 0 not")):
        found = read(tmp_path / "x.json", bare | {"categories": categories})
        assert counts in found.counts
        assert found.table.rows[-1][:2] == ("failed", "cert")
        assert found.table.rows[-1][2] == "it failed, but no category failed"


def test_one_job_speaks_of_its_own_hosts_alone(tmp_path: Path) -> None:
    placed = REDUCE | {"placement": "Unpinned", "targetNodes": 16, "exercisedNodes": 4}
    found = read(tmp_path / "x.json", REPORT | {"categories": [placed]})
    assert "4 hosts a job on 4 of 16, MNNVL" in str(found.table.rows[0][1])
    placed["exercisedNodes"] = 0
    found = read(tmp_path / "x.json", REPORT | {"categories": [placed]})
    assert "on 0 of 16" in str(found.table.rows[0][1])


@pytest.mark.parametrize(
    "changes", [{"categories": [REDUCE]}, {"categories": [TRAINED], "failedNodes": []}]
)
def test_a_failure_that_has_its_row_is_not_told_twice(
    tmp_path: Path, changes: dict[str, object]
) -> None:
    found = read(tmp_path / "x.json", REPORT | changes)
    assert [row[0] for row in found.table.rows].count("failed") == 1
    assert "no category failed" not in str(found.table.rows)


@pytest.mark.parametrize(
    ("variant", "by"),
    [
        ("nccl-loopback", "nccl.loopback"),
        ("nccl-loopback-nvswitch", "nccl.host"),
        ("nccl-alltoall", "nccl.cluster"),
        ("another", "nccl.groups"),
    ],
)
def test_each_category_has_the_answer_of_its_kind(tmp_path: Path, variant: str, by: str) -> None:
    found = read(tmp_path / "x.json", REPORT | {"categories": [REDUCE | {"variant": variant}]})
    assert found.table.rows[0][3] == by


def test_a_training_shows_its_rate(tmp_path: Path) -> None:
    good = TRAINED | {"status": "Succeeded", "domains": [{"name": "a", "tflops": 539.8}]}
    found = read(tmp_path / "x.json", REPORT | {"categories": [good]})
    assert found.table.rows[0][2] == "539.8 TFLOPS a GPU"


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"result": "RUNNING"}, "gpu-cluster-cert has not ended"),
        ({"result": "GOOD"}, "result"),
        ({"totalNodes": -1}, "totalNodes"),
        ({"categories": [{"domain": "x"}]}, "categories.0"),
        ({"failedNodes": "n1"}, "failedNodes"),
    ],
)
def test_what_is_no_report_or_has_not_ended_is_refused_in_one_line(
    tmp_path: Path, changes: dict[str, object], told: str
) -> None:
    with pytest.raises(ConfigError) as found:
        read(tmp_path / "x.json", REPORT | changes)
    assert told in found.value.message
    assert "\n" not in found.value.message


@pytest.mark.parametrize("text", ["", "[]", "{", "[1]"])
def test_what_holds_no_report_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match="is not a report of NVCRE"):
        read(tmp_path / "x.json", text)


def test_a_report_of_the_future_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="of the future"):
        read(tmp_path / "x.json", REPORT, datetime.now(UTC) - timedelta(hours=3))


def test_each_answer_names_a_check_that_there_is() -> None:
    measured = {check for benchmark in BENCHMARKS for check in benchmark.checks}
    for key, ours in mapped(nvcre.NAME).items():
        assert ours.by in {*ALL_CHECK_IDS, *measured}, key


def test_it_is_entered_with_its_digest_and_its_failures_fail_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    site, file = ready_site(tmp_path / "site"), tmp_path / "x.json"
    file.write_text(json.dumps(REPORT))
    os.utime(file, (NOW.timestamp() - 60, NOW.timestamp() - 60))
    words = ("validate", "--foreign", str(file), "--site", str(site))
    assert command(monkeypatch, *words) == 0
    assert "closes no gate" in capsys.readouterr().out
    with Journal(site / "runs") as journal:
        (entry,) = journal.entries("evidence")
    evidence = entry.data["evidence"]
    assert isinstance(evidence, dict)
    assert (evidence["source"], evidence["results"]) == ("another tool's output", [])
    assert [Path(one["path"]).name for one in evidence["files"]] == ["report.json"]
    file.write_text(json.dumps(REPORT | {"result": "RUNNING"}))
    assert command(monkeypatch, *words) == 2
    assert "has not ended" in capsys.readouterr().err
