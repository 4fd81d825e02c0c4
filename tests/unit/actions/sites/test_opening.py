"""A verb's session: a run's name of its own, and nothing left by a verb that only read."""

import json
from pathlib import Path

import pytest

from appliance.actions.sites.opening import Target, open_session
from appliance.errors import LockedError
from appliance.models.events import Message
from tests.support.engine_fakes import Recorder
from tests.support.site_folder import site_folder

__all__ = ["site_folder"]


def test_verbs_at_work_at_once_never_share_a_name(site_folder: Path) -> None:
    target, observer = Target(site_folder), Recorder()
    with (
        open_session(target, "health", observer) as first,
        open_session(target, "plan", observer) as second,
        open_session(target, "deploy", observer, changes=True) as third,
    ):
        assert len({first.run, second.run, third.run}) == 3
        with (
            pytest.raises(LockedError, match=third.run),
            open_session(target, "deploy", observer, changes=True),
        ):
            pass
        with (
            pytest.raises(LockedError, match=third.run),
            open_session(target, "validate", observer, alone=True),
        ):
            pass
        first.folder_of_run.joinpath("report.json").touch()
    left = [path.name for path in (site_folder / "runs").iterdir() if path.is_dir()]
    assert left == [first.run]


def test_after_a_run_that_was_cut_off_the_hosts_decide_what_is_repeated(site_folder: Path) -> None:
    note = {"run": "2026-11-22T20-15-00", "verb": "deploy", "pid": "1", "since": "then"}
    (site_folder / "runs").mkdir()
    (site_folder / "runs" / "lock").write_text(json.dumps(note))
    observer = Recorder()
    with open_session(Target(site_folder), "deploy", observer, changes=True):
        pass
    assert [event.text for event in observer.events if isinstance(event, Message)] == [
        "run 2026-11-22T20-15-00 was interrupted; finished steps are not repeated"
    ]
