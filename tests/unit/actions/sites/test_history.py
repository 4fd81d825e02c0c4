"""Who changed a site, and when: from the journal alone."""

import json
from pathlib import Path

import pytest

from appliance.actions.sites.history import Run, history
from appliance.actions.sites.opening import Target, open_session
from appliance.errors import ConfigError
from appliance.journal import Journal
from tests.support import command_line
from tests.support.engine_fakes import Recorder
from tests.support.site_folder import site_folder

__all__ = ["site_folder"]


def run_of(folder: Path) -> Run:
    (found,) = history(folder / "runs")
    return found


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (None, "done"),
        (ConfigError("no"), "refused"),
        (KeyboardInterrupt(), "interrupted"),
        (RuntimeError(), "failed"),
    ],
)
def test_a_verb_that_holds_the_lock_is_recorded_with_its_user_and_its_end(
    error: BaseException | None,
    outcome: str,
    site_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SUDO_USER", "anna")

    def work() -> None:
        with open_session(Target(site_folder), "power", Recorder(), changes=True):
            if error:
                raise error

    if error:
        with pytest.raises(type(error)):
            work()
    else:
        work()
    run = run_of(site_folder)
    assert (run.verb, run.outcome) == ("power", outcome)
    assert run.who.startswith("anna@")
    assert run.finished is not None


def test_a_verb_that_only_reads_is_not_listed(site_folder: Path) -> None:
    assert history(site_folder / "runs") == ()
    with open_session(Target(site_folder), "health", Recorder()) as session:
        session.journal.append(session.run, "looked", verb="health")
    assert history(site_folder / "runs") == ()


def test_a_deployment_lists_what_it_changed_and_its_verdict(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        journal.append("r1", "run_started", verb="deploy", scope="--hosts gpu-1", appliance="0.1.0")
        for host, changes in (("gpu-2", 1), ("gpu-1", 3), ("head", 0)):
            journal.append("r1", "host_done", stage="slurm", host=host, changes=changes)
        journal.append("r1", "host_failed", stage="base", host="head")
        journal.append("r1", "run_finished", verdict="failed", exit=1)
        journal.append("r2", "run_started", verb="validate")
    first, second = history(tmp_path)
    assert (first.changed, first.failed) == ({"slurm": ["gpu-1", "gpu-2"]}, {"base": ["head"]})
    assert (first.scope, first.outcome, second.outcome) == ("--hosts gpu-1", "failed", "unfinished")


def test_the_command_prints_the_last_runs_and_json(
    site_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with Journal(site_folder / "runs") as journal:
        for number in range(25):
            journal.append(f"r{number:02}", "run_started", verb="deploy")
        journal.append("r24", "host_done", stage="base", host="gpu-1", changes=1)
        journal.append("r24", "run_finished", verdict="passed")
    words = ("history", "--site", str(site_folder))
    assert command_line.run(monkeypatch, *words) == 0
    printed = capsys.readouterr().out
    assert "r04" not in printed
    assert "5 earlier runs: --all" in printed
    assert "    changed base on gpu-1" in printed
    assert command_line.run(monkeypatch, *words, "--json") == 0
    runs = json.loads(capsys.readouterr().out)["runs"]
    assert (len(runs), runs[-1]["outcome"]) == (20, "passed")
