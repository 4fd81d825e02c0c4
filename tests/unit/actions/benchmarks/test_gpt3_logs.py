"""Logs enter the record of a site, close its gates where they speak of it, and are refused where they cannot."""

import json
import re
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from appliance import journal
from appliance.actions.benchmarks.gpt3_logs import keep_logs, read_logs
from appliance.actions.sites.opening import Target
from appliance.config.finding import InvalidConfig
from appliance.journal import Journal
from appliance.models.acceptance import Accepted, GateState
from appliance.models.result import Verdict
from appliance.models.run import RunRecord
from appliance.report.html import render
from tests.support.command_line import run
from tests.support.facts import facts_of, gpus_of
from tests.support.gpt3_logs import DATA, megatron, step_times
from tests.support.site_files import ready_site, write_site


class Nobody:
    def handle(self, event: object) -> None: ...


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Four GPU hosts, or as many as a test leaves, ready to be looked at."""
    return ready_site(tmp_path / "my site")


@pytest.fixture
def told(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The GPU hosts told which GPUs they have, before the runs that the logs are of."""
    written, before = journal._written, datetime(2023, 1, 1, tzinfo=UTC)
    with monkeypatch.context() as patch, Journal(site / "runs") as kept:
        patch.setattr(journal, "_written", lambda _: written(before))
        for host in ("gpu-1", "gpu-2", "gpu-3", "gpu-4"):
            facts = facts_of(host, gpus=gpus_of("NVIDIA A100-SXM4-80GB", 8))
            kept.append("r0", "facts", host=host, facts=facts.model_dump(mode="json"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copytree(DATA, tmp_path / "logs")
    return tmp_path / "logs"


def _kept(site: Path, folder: Path, model: str | None = None) -> RunRecord:
    return keep_logs(Target(site), folder, Nobody(), model)[0]


def _state(record: RunRecord, gate: str) -> GateState:
    assert record.acceptance
    return next(g.state for g in record.acceptance.gates if g.id == gate)


def _entries(site: Path) -> int:
    with Journal(site / "runs") as kept:
        return len(list(kept.entries("evidence")))


@pytest.mark.usefixtures("told")
def test_logs_close_the_gates_of_the_site_and_the_record_says_where_they_lie(
    site: Path, folder: Path
) -> None:
    record = _kept(site, folder)
    assert record.verdict is Verdict.PASSED
    assert record.acceptance
    training = [g for g in record.acceptance.gates if g.id.startswith("gpt3.")]
    assert [g.state for g in training] == [GateState.PASSED] * 2
    assert record.acceptance.verdict is Accepted.NOT_YET
    assert "appliance deploy" in record.acceptance.why
    gate = next(g for g in record.acceptance.gates if g.id == "gpt3.5b")
    assert (gate.source, gate.value) == (f"logs in {folder}", 185_090)
    page = render(record)
    assert "logs in" in page
    assert "Accepted" in page
    with Journal(site / "runs") as kept:
        entry = kept.last("evidence")
    assert entry
    text = json.dumps(entry.data)
    assert len(set(re.findall(r'"sha256": "([0-9a-f]{64})"', text))) == 12


def test_logs_close_no_gate_of_a_site_whose_gpus_nobody_knows(site: Path, folder: Path) -> None:
    record = _kept(site, folder)
    assert record.verdict is Verdict.INCOMPLETE
    assert record.acceptance
    assert {g.state for g in record.acceptance.gates} == {GateState.OPEN}


@pytest.mark.usefixtures("told")
def test_one_model_closes_its_gate_alone_and_decides_alone(site: Path, folder: Path) -> None:
    record = _kept(site, folder, "5B")
    assert record.verdict is Verdict.PASSED
    assert _state(record, "gpt3.5b") is GateState.PASSED
    assert _state(record, "gpt3.126m") is GateState.OPEN


@pytest.mark.usefixtures("told")
def test_slow_run_fails_the_gate_and_the_verb(site: Path, folder: Path) -> None:
    (folder / "5b/bare-metal/4n.log").write_bytes(megatron(step_times(22.66 * 1.2), 2048))
    record = _kept(site, folder, "5b")
    assert record.verdict is Verdict.FAILED
    assert _state(record, "gpt3.5b") is GateState.FAILED


def test_run_on_fewer_hosts_is_incomplete(site: Path, folder: Path) -> None:
    shutil.rmtree(folder / "126m")
    (folder / "5b/bare-metal/4n.log").unlink()
    record = _kept(site, folder)
    assert record.verdict is Verdict.INCOMPLETE
    assert _state(record, "gpt3.5b") is GateState.OPEN


def test_logs_of_more_hosts_than_the_site_has_are_refused_and_nothing_is_kept(
    site: Path, folder: Path
) -> None:
    (folder / "5b/bare-metal/4n.log").rename(folder / "5b/bare-metal/8n.log")
    with pytest.raises(Exception, match="8 GPU hosts; site mysite has 4"):
        _kept(site, folder)
    assert _entries(site) == 0


def test_logs_of_another_class_are_refused(site: Path, folder: Path) -> None:
    (folder / "runs.yml").write_text("gpu: A100-PCIe-80GB\ngpus_per_node: 4\n")
    with pytest.raises(InvalidConfig) as caught:
        _kept(site, folder)
    assert len(caught.value.findings) == 2
    assert _entries(site) == 0


def test_without_an_inventory_nothing_is_kept(site: Path, folder: Path) -> None:
    assert read_logs(folder, "hpc").results
    assert not (site / "runs").exists()


@pytest.mark.parametrize(("hosts", "code"), [(4, 0), (1, 3)])
@pytest.mark.usefixtures("told")
def test_the_verb_records_and_the_report_shows_it(
    hosts: int,
    code: int,
    site: Path,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if hosts == 1:
        write_site(site, 2)
        for name in ("2n", "4n"):
            for log in folder.glob(f"*/*/{name}.*"):
                log.unlink()
    monkeypatch.chdir(site.parent)
    argv = ("validate", "gpt3", "--from-logs", "logs", "--site", "my site")
    assert run(monkeypatch, *argv) == code
    shown = capsys.readouterr().out
    assert "Accepted: not yet." in shown
    assert run(monkeypatch, "report", "--site", "my site") == code
    assert f"logs in {folder}" in " ".join(capsys.readouterr().out.split())


def test_a_verdict_on_nothing_is_incomplete(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "runs.yml").unlink()
    assert run(monkeypatch, "validate", "gpt3", "--from-logs", str(folder)) == 3
    assert "INCOMPLETE: 0 of" in capsys.readouterr().out
