"""A verb's session: a run's name of its own, and nothing left by a verb that only read."""

from pathlib import Path

import pytest

from appliance.actions.opening import Target, open_session
from appliance.errors import LockedError
from tests.unit.config.conftest import site_folder
from tests.unit.engine.world import Recorder

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
        first.folder_of_run.joinpath("report.json").touch()
    left = [path.name for path in (site_folder / "runs").iterdir() if path.is_dir()]
    assert left == [first.run]
