"""ClusterMAX's audit: entered with its digest, shown beside ours, and no gate is closed by it. A stand-in plays its program."""

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from appliance.benchmarks import BENCHMARKS
from appliance.benchmarks.foreign import clustermax
from appliance.benchmarks.foreign.shown import mapped
from appliance.config import data
from appliance.engine.look.probe_requests import ALL_CHECK_IDS
from appliance.errors import ConfigError
from appliance.journal import Journal
from tests.support.command_line import run as command
from tests.support.site_files import ready_site

NOW = datetime(2026, 11, 24, 12, tzinfo=UTC)
CLUSTER = {
    "orchestrator": "slurm",
    "nodes": 2,
    "gpus_per_node": 8,
    "audited_at": "2026-11-24T10:00:00Z",
    "region": "somewhere",
}
VALUES = {"schema_version": 1, "runner": "audit", "cluster": CLUSTER, "audit_data": {"a": 1}}
REVIEW = """Audit review: /x/audit.values.json
# ClusterMAX audit report

PASS     Access / Sudo Available  [access.sudoAvailable]
         Observed: true

SKIPPED  NCCL Topo File  [nccl_topo_file.status]
         Observed: unknown

WARNING  Software / Lmod / Modules Status  [software.lmod.modulesStatus]
         Observed: fail
         References:
           [1] something  https://example.org/x

FAIL     Software / Perf  [software.perf.installed]
         Observed: false

FAIL     A check of tomorrow  [new.check]
         Observed: \x1b[31mred

2 failed, 1 warning, 1 passed, 1 skipped
run 'cmax audit review -vv' for more
"""


@pytest.fixture
def audit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of an audit, with a stand-in for ClusterMAX's program on PATH."""
    (tmp_path / "review").write_text(REVIEW)
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin/cmax"
    program.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && echo "cmax 0.2.1" && exit\ncat {tmp_path}/review\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    file = tmp_path / "audit.values.json"
    file.write_text(json.dumps(VALUES))
    return file


def test_every_verdict_is_read_with_what_was_observed(audit: Path) -> None:
    found = clustermax.read(audit, NOW)
    assert found.counts == "1 passed, 2 failed, 1 warnings, 1 skipped"
    assert [item.status for item in found.items] == ["pass", "skipped", "warning", "fail", "fail"]
    assert found.items[3].key == "software.perf.installed"
    assert found.items[4].observed == r"\x1b[31mred"


def test_what_is_wrong_or_doubtful_is_set_against_ours_and_marked_foreign(audit: Path) -> None:
    shown = clustermax.listed(clustermax.read(audit, NOW))
    assert "foreign" in shown.title
    assert "closes no gate" in shown.note
    assert [row[0] for row in shown.rows] == ["fail", "fail", "warning"]
    assert "linux-perf" in str(shown.rows[0][4])
    assert shown.rows[1][3:] == ("", "an item that this program does not know")


def test_each_answer_names_a_check_a_gate_or_a_page_that_there_is() -> None:
    measured = {check for benchmark in BENCHMARKS for check in benchmark.checks}
    for key, ours in mapped(clustermax.NAME).items():
        there = (data.root() / ours.by).is_file() if ours.by.startswith("docs/") else None
        assert there or ours.by in {"", *ALL_CHECK_IDS, *measured}, f"{key}: {ours.by}"


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ("", "no output"),
        ("[]", "no JSON"),
        ("{", "is not an audit"),
        (json.dumps({"verdict": "all good"}), "schema_version"),
        (json.dumps(VALUES | {"schema_version": 2}), "schema_version"),
        (json.dumps(VALUES | {"runner": "bench"}), "runner"),
        (json.dumps(VALUES | {"cluster": CLUSTER | {"nodes": -1}}), "cluster.nodes"),
        (json.dumps(VALUES | {"cluster": CLUSTER | {"audited_at": "soon"}}), "audited_at"),
    ],
)
def test_a_file_that_is_no_audit_is_refused_in_one_line(
    audit: Path, values: str, told: str
) -> None:
    audit.write_text(values)
    with pytest.raises(ConfigError) as found:
        clustermax.read(audit, NOW)
    assert told in found.value.message
    assert "\n" not in found.value.message


def test_a_pipe_in_place_of_an_audit_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "audit")
    with pytest.raises(ConfigError, match="it is not a regular file"):
        clustermax.read(tmp_path / "audit", NOW)


def test_an_audit_of_the_future_is_refused(audit: Path) -> None:
    with pytest.raises(ConfigError, match="of the future"):
        clustermax.read(audit, NOW - timedelta(hours=3))


@pytest.mark.parametrize(
    "review", [REVIEW.replace("2 failed", "1 failed"), "", REVIEW.replace("FAIL  ", "BAD   ")]
)
def test_a_review_that_does_not_add_up_is_refused(audit: Path, review: str) -> None:
    audit.with_name("review").write_text(review)
    with pytest.raises(ConfigError, match="items were read"):
        clustermax.read(audit, NOW)


def test_without_its_own_program_it_is_not_judged(
    audit: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ConfigError) as found:
        clustermax.read(audit, NOW)
    assert "clustermax==0.2.1" in found.value.hint


def test_it_is_entered_with_its_digest_and_its_failures_fail_nothing(
    audit: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    site = ready_site(tmp_path / "site")
    words = ("validate", "--foreign", str(audit), "--site", str(site))
    assert command(monkeypatch, *words) == 0
    assert "closes no gate" in capsys.readouterr().out
    with Journal(site / "runs") as journal:
        (entry,) = journal.entries("evidence")
    evidence = entry.data["evidence"]
    assert isinstance(evidence, dict)
    assert evidence["source"] == "another tool's output"
    assert evidence["results"] == []
    kept = {Path(file["path"]).name: file["sha256"] for file in evidence["files"]}
    assert set(kept) == {"audit.values.json", "review.txt"}


def test_a_file_that_is_refused_leaves_nothing_behind(
    audit: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    site = ready_site(tmp_path / "site")
    audit.write_text("{}")
    words = ("validate", "--foreign", str(audit), "--site", str(site))
    assert command(monkeypatch, *words) == 2
    assert "is not an audit of ClusterMAX" in capsys.readouterr().err
    assert not (site / "runs/journal.sqlite").exists()
