"""A run of NVIDIA's AI Cloud Validation Suite: read as its program writes it, shown beside ours, and no gate is closed by it."""

import hashlib
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from appliance.benchmarks import BENCHMARKS
from appliance.benchmarks.foreign import isvctl
from appliance.benchmarks.foreign.shown import ForeignReport, mapped
from appliance.bmc.checks import CHECKS as BMC_CHECKS
from appliance.config import data
from appliance.engine.look.probe_requests import ALL_CHECK_IDS
from appliance.errors import ConfigError
from appliance.journal import Journal
from tests.support.command_line import run as command
from tests.support.site_files import ready_site

REPORT = (Path(__file__).parents[3] / "data/foreign/isvctl.xml").read_text()
RAN = datetime(2026, 11, 24, 10, tzinfo=UTC)
TIME = ' timestamp="2026-11-24T10:00:00+00:00"'


def read(
    folder: Path, text: str = REPORT, now: datetime = RAN + timedelta(hours=1)
) -> ForeignReport:
    file = folder / "junit.xml"
    file.write_text(text)
    os.utime(file, (RAN.timestamp() - 60, RAN.timestamp() - 60))
    assert isvctl.is_one(text)
    return isvctl.read(file, text, now)


def test_each_item_is_told_as_its_program_told_it(tmp_path: Path) -> None:
    found = read(tmp_path)
    assert found.counts == "3 passed, 1 failed, 2 errored, 2 skipped"
    assert (found.name, found.began, found.dated_by) == (
        "isvctl-bare_metal",
        RAN,
        "the report's own clock",
    )
    assert [row[:4] for row in found.table.rows] == [
        ("errored", "BmTrainingCheck", "no such field", "gpt3.throughput"),
        ("errored", "BmNcclCheck", "Validation raised exception: no such host", "nccl.host"),
        ("failed", "BmNvlinkCheck", "links: 11 of 12", "gpu.nvlink"),
        ("failed", "BmNvlinkCheck::links", "Subtest links failed", "gpu.nvlink"),
        ("skipped", "BmHostListedCheck", "step 'list' is not there", ""),
        ("skipped", "BmInfiniBandCheck", "no adapter", "fabric.active"),
        ("passed", "BmGpusPresentCheck, BmPciBusCheck", "", "gpu.count"),
        ("passed", "TomorrowsCheck", "", ""),
    ]
    assert found.table.rows[-1][4] == "an item that this program does not know"
    assert "foreign" in found.table.title
    assert "closes no gate" in found.table.note


@pytest.mark.parametrize(
    ("inside", "says"),
    [
        ("<skipped/>", "skipped"),
        ("<skipped message='Validation raised exception: but did not run'/>", "skipped"),
        ("<failure message='f'/><skipped message='s'/>", "failed"),
        ("<skipped message='s'/><failure message='f'/><error message='e'/>", "errored"),
        ("<system-out>FAILED</system-out><properties/>", "passed"),
    ],
)
def test_the_worst_that_a_case_bears_is_what_it_is(tmp_path: Path, inside: str, says: str) -> None:
    counts = {"failed": "failures", "errored": "errors", "skipped": "skipped"}
    told = " ".join(f'{word}="{int(key == says)}"' for key, word in counts.items())
    found = read(
        tmp_path,
        f'<testsuites name="{isvctl.ROOT}"><testsuite name="slurm/test" tests="1" {told}>'
        f'<testcase name="SlurmJobSubmission">{inside}</testcase></testsuite></testsuites>',
    )
    assert f"1 {says}" in found.counts
    assert found.table.rows[0][0] == says
    assert found.dated_by == "the file's own time"


def test_a_suite_that_counts_its_parts_once_is_read_too(tmp_path: Path) -> None:
    once = REPORT.replace('tests="12"', 'tests="10"').replace('failures="4"', 'failures="3"')
    assert read(tmp_path, once).counts == read(tmp_path).counts


def test_it_began_with_its_first_phase(tmp_path: Path) -> None:
    early = REPORT.replace(
        'skipped="1" time', 'skipped="1" timestamp="2026-11-24T12:30:00+03:00" time'
    )
    assert read(tmp_path, early).began == RAN - timedelta(minutes=30)


def test_a_reason_is_told_once_and_the_others_are_counted(tmp_path: Path) -> None:
    cases = "".join(
        f'<testcase name="SlurmPartition-{n}"><skipped message="{why}"/></testcase>'
        for n, why in enumerate(["no step", "no step", "", "another"])
    )
    found = read(
        tmp_path,
        f'<testsuites name="{isvctl.ROOT}"><testsuite name="slurm/test" tests="4" failures="0" '
        f'errors="0" skipped="4">{cases}</testsuite></testsuites>',
    )
    (row,) = found.table.rows
    assert row[2:4] == ("no step and 1 more", "slurm.nodes")
    assert str(row[1]).startswith("SlurmPartition-0, SlurmPartition-1")


@pytest.mark.parametrize("name", ["NotBmGpusPresentCheck", "SlurmPartition-" + "x" * 128])
def test_a_name_that_only_resembles_one_has_no_answer(tmp_path: Path, name: str) -> None:
    found = read(tmp_path, REPORT.replace("TomorrowsCheck", name))
    assert found.table.rows[-1][4] == "an item that this program does not know"


def test_text_of_others_moves_no_cursor(tmp_path: Path) -> None:
    found = read(tmp_path, REPORT.replace("no such field", "a&#x9b;b&#x202e;c&#10;"))
    assert found.table.rows[0][2] == r"a\x9bb\u202ec"


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("isvctl validation tests", "pytest tests", "'pytest tests'"),
        ("testsuites", "testsuits", "begins with 'testsuits'"),
        ("bare_metal/test", "vm/test", "one platform: bare_metal/setup, vm/test"),
        ("bare_metal/", "a b/", "PLATFORM/PHASE"),
        ('failures="4"', 'failures="2"', "declares failures='2', but contains 3"),
        ('failures="4"', 'failures="5"', "declares failures='5', but contains 3"),
        ('tests="12"', 'tests="13"', "declares tests='13', but contains 10"),
        ('skipped="2"', 'skipped="1"', "declares skipped='1', but contains 2"),
        ('tests="12"', 'tests="many"', "declares tests='many'"),
        ('errors="1"', "", "declares errors=''"),
        ('<testcase name="BmTrainingCheck"', '<case name="x"/><testcase name="y"', "has 'case'"),
        ('name="TomorrowsCheck"', "", "a case without a name"),
        ("system-out", "flakyFailure", "has 'flakyFailure'"),
        (TIME, ' timestamp="soon"', "soon"),
        (TIME, ' timestamp="0001-01-01T00:00:00+23:00"', "is not a report of isvctl"),
        ("<?xml version='1.0' encoding='utf-8'?>", "<!DOCTYPE x>", "document type"),
        ("</testsuites>", "", "not XML"),
        (
            "</testsuites>",
            "<properties/></testsuites>",
            "contains 'properties' in addition to its suites",
        ),
    ],
)
def test_what_is_no_report_or_does_not_add_up_is_refused_in_one_line(
    tmp_path: Path, old: str, new: str, told: str
) -> None:
    assert old in REPORT
    with pytest.raises(ConfigError) as found:
        read(tmp_path, REPORT.replace(old, new))
    assert "is not a report of isvctl" in found.value.message
    assert told in found.value.message
    assert "\n" not in found.value.message


@pytest.mark.parametrize("inside", ["", '<testsuite name="a/b" tests="0"/>'])
def test_a_report_of_nothing_is_refused(tmp_path: Path, inside: str) -> None:
    with pytest.raises(ConfigError, match="it contains no items"):
        read(tmp_path, f'<testsuites name="{isvctl.ROOT}">{inside}</testsuites>')


def test_a_report_of_the_future_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="of the future"):
        read(tmp_path, now=RAN - timedelta(minutes=1))


def test_each_answer_names_a_check_a_gate_or_a_page_that_there_is() -> None:
    measured = {check for benchmark in BENCHMARKS for check in benchmark.checks}
    measured |= {check.id for check in BMC_CHECKS}
    for key, ours in mapped(isvctl.NAME).items():
        there = (data.root() / ours.by).is_file() if ours.by.startswith("docs/") else None
        assert there or ours.by in {"", *ALL_CHECK_IDS, *measured}, f"{key}: {ours.by}"


def test_it_is_entered_with_its_digest_and_its_failures_fail_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    site, file = ready_site(tmp_path / "site"), tmp_path / "x.xml"
    file.write_text(REPORT)
    words = ("validate", "--foreign", str(file), "--site", str(site))
    assert command(monkeypatch, *words) == 0
    assert "3 passed, 1 failed, 2 errored, 2 skipped" in capsys.readouterr().out
    file.write_text(REPORT.replace("bare_metal/", "slurm/"))
    assert command(monkeypatch, *words) == 0
    with Journal(site / "runs") as journal:
        first, second = journal.entries("evidence")
    one, other = first.data["evidence"], second.data["evidence"]
    assert isinstance(one, dict)
    assert isinstance(other, dict)
    assert (one["source"], one["results"]) == ("another tool's output", [])
    assert one["files"][0]["sha256"] == hashlib.sha256(REPORT.encode()).hexdigest()
    assert (one["benchmark"], other["benchmark"]) == ("isvctl-bare_metal", "isvctl-slurm")


def test_a_file_that_is_refused_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    site, file = ready_site(tmp_path / "site"), tmp_path / "x.xml"
    file.write_text("<!DOCTYPE a [<!ENTITY b SYSTEM 'file:///etc/passwd'>]><a>&b;</a>")
    words = ("validate", "--foreign", str(file), "--site", str(site))
    assert command(monkeypatch, *words) == 2
    assert "declares a document type" in capsys.readouterr().err
    assert not (site / "runs/journal.sqlite").exists()
