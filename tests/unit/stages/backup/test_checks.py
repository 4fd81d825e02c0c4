"""Checks of backups: each trips on its fault, and what is not known is no pass."""

from typing import Any

import pytest

from appliance.checks.check import View
from appliance.config.load import load_profile
from appliance.models.result import CheckResult, Status
from appliance.stages.backup import checks, ids
from tests.support.facts import facts_of
from tests.support.judging import said_by
from tests.support.sites import site_of

BACKUP = {"target": "/mnt/backup", "recipient": "age1" + 58 * "q"}
GOOD: dict[str, Any] = {"age_s": 600.0, "name": "20261201T000000Z", "bytes": 9, "tried_s": 600.0}
TRIED = {**GOOD, "tried_s": 5.0}
UP = {"load": "loaded", "active": "active", "enabled": "enabled"}


def one(check_id: str, seen: Any, active: str = "active") -> CheckResult:
    units = {checks.TIMER: {**UP, "active": active}}
    view = View(
        site=site_of("head", "gpu-1", slurm={}, backup=BACKUP),
        profile=load_profile("hpc"),
        facts={"head": facts_of("head", units=units, backup=seen)},
    )
    (result,) = said_by(check_id, view, "head")
    return result


@pytest.mark.parametrize(
    ("seen", "active", "status", "told"),
    [
        (GOOD, "active", Status.PASS, ""),
        ({**GOOD, "age_s": 35 * 60.0}, "active", Status.PASS, ""),
        ({**GOOD, "age_s": 36 * 60.0}, "active", Status.FAIL, "is 36 minutes old"),
        ({**GOOD, "age_s": 36 * 60.0}, "inactive", Status.FAIL, "timer is inactive"),
        ({**GOOD, "age_s": 9e3, "problem": "no route"}, "active", Status.FAIL, "old: no route"),
        ({}, "active", Status.FAIL, "there is no backup"),
        ({"tried_s": 9.0, "problem": "is new", "kind": "new"}, "active", Status.FAIL, "is new"),
        ({**TRIED, "problem": "is new", "kind": "new"}, "active", Status.FAIL, "is new"),
        (None, "active", Status.NOT_ASSESSED, "not installed"),
    ],
)
def test_the_last_good_backup_is_recent(seen: Any, active: str, status: Status, told: str) -> None:
    found = one(ids.AGE, seen, active)
    assert found.status is status
    assert told in found.cause
    assert found.fix or status is Status.PASS


@pytest.mark.parametrize(
    ("seen", "status", "told"),
    [
        (TRIED, Status.PASS, ""),
        ({**TRIED, "problem": "no route", "kind": "target"}, Status.FAIL, "/mnt/backup: no route"),
        ({**TRIED, "problem": "2002", "kind": "data"}, Status.NOT_ASSESSED, "before the end: 2002"),
        ({**TRIED, "problem": "is new", "kind": "new"}, Status.PASS, ""),
        ({}, Status.NOT_ASSESSED, "no backup has been tried"),
        (None, Status.NOT_ASSESSED, "not installed"),
    ],
)
def test_the_target_takes_backups(seen: Any, status: Status, told: str) -> None:
    found = one(ids.TARGET, seen)
    assert found.status is status
    assert told in found.cause
    assert found.fix or status is Status.PASS


def test_a_rebuilt_host_is_sent_to_the_restore() -> None:
    found = one(ids.AGE, {"tried_s": 9.0, "problem": "is new", "kind": "new"})
    assert found.fix.startswith("appliance backup restore latest")
