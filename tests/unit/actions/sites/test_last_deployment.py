"""The last deployment by the journal: cell by cell, while it runs and after its end."""

import fcntl
import json
import os
from pathlib import Path
from typing import Any

import pytest

from appliance.actions.sites.last_deployment import Progress, SiteRecord, site_record
from appliance.journal import Journal, hold, holder
from appliance.ownership import Untrusted

RUN = "2026-11-23T13-05-00"
PLAN = [{"stage": s, "host": h, "why": "new"} for s in ("base", "slurm") for h in ("a", "b")]


def states(found: SiteRecord) -> dict[str, str]:
    assert found.deployment
    return {f"{s} {h}": cell.state.value for (s, h), cell in found.deployment.cells.items()}


def begin(journal: Journal) -> None:
    journal.append(RUN, "opened", verb="deploy", who="ada")
    journal.append(RUN, "run_started", verb="deploy", scope="--hosts a")
    journal.append(RUN, "plan", cells=PLAN)
    for host in ("a", "b"):
        journal.append(RUN, "host_started", stage="base", host=host, why="first")
    journal.append(RUN, "task_changed", stage="base", host="b", task="base | set the clock")
    told: dict[str, Any] = {"seconds": 4.5, "changes": 3, "cause": "", "fix": ""}
    journal.append(RUN, "host_done", stage="base", host="a", tasks=9, **told)


def test_a_run_that_holds_the_site_fills_its_cells(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal, hold(tmp_path, RUN, "deploy"):
        begin(journal)
        found = site_record(tmp_path)
        assert found.deployment
        assert found.deployment.is_running
        assert found.holder["run"] == RUN
        assert found.holder["pid"] == str(os.getpid())
        assert states(found) == {
            "base a": "done",
            "base b": "running",
            "slurm a": "planned",
            "slurm b": "planned",
        }
        done, works = (found.deployment.cells["base", host] for host in ("a", "b"))
        assert (done.seconds, done.changes, done.why) == (4.5, 3, "first")
        assert (works.task, works.changes) == ("set the clock", 1)
        assert found.deployment.stages == ("base", "slurm")
        assert found.deployment.run.who == "ada"


def test_a_run_that_was_killed_is_interrupted_and_holds_nothing(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        begin(journal)
    note = {"run": RUN, "verb": "deploy", "pid": str(os.getpid()), "since": "13:05"}
    (tmp_path / "lock").write_text(json.dumps(note))
    (tmp_path / "lock").chmod(0o600)
    found = site_record(tmp_path)
    assert found.holder == {}
    assert found.deployment
    assert not found.deployment.is_running
    assert states(found)["base b"] == Progress.INTERRUPTED
    assert states(found)["slurm a"] == Progress.PLANNED


def test_a_failure_keeps_its_cause_and_remedy(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        begin(journal)
        told: dict[str, Any] = {"seconds": 1, "changes": 0, "cause": "no disk", "fix": "add one"}
        journal.append(RUN, "host_failed", stage="base", host="b", **told)
        journal.append(RUN, "run_finished", verdict="failed")
    found = site_record(tmp_path)
    assert found.deployment
    cell = found.deployment.cells["base", "b"]
    assert (cell.state, cell.cause, cell.fix) == (Progress.FAILED, "no disk", "add one")
    assert found.deployment.run.outcome == "failed"


def test_the_newest_deployment_counts_and_other_verbs_do_not(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        begin(journal)
        journal.append("r2", "run_started", verb="deploy")
        journal.append("r3", "run_started", verb="validate")
    found = site_record(tmp_path)
    assert found.deployment
    assert (found.deployment.run.run, found.deployment.cells) == ("r2", {})
    assert [run.run for run in found.runs] == [RUN, "r2", "r3"]


def test_a_site_without_a_journal_has_no_deployment(tmp_path: Path) -> None:
    assert site_record(tmp_path) == SiteRecord((), None, {})
    assert list(tmp_path.iterdir()) == []


def test_who_holds_a_site_is_told_without_taking_its_lock(tmp_path: Path) -> None:
    with hold(tmp_path, "r1", "deploy"):
        assert holder(tmp_path)["verb"] == "deploy"
    assert holder(tmp_path) == {}
    (tmp_path / "lock").write_text("{}")
    with (tmp_path / "lock").open() as file:
        assert holder(tmp_path) == {}
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_lock_file_of_another_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "lock").symlink_to("/etc/passwd")
    with pytest.raises(Untrusted):
        holder(tmp_path)
