"""etcd that takes no changes is a failure, one that nearly takes none a warning, and one nobody measured neither."""

from typing import Any

import pytest

from appliance.checks.check import View
from appliance.models.result import CheckResult, Status
from appliance.models.site import Role
from appliance.stages.kubernetes.checks.etcd import judge_etcd
from tests.support.facts import facts_of
from tests.support.kubernetes_facts import SITE
from tests.support.profiles import profile_of
from tests.support.sites import site_of

GB = 10**9
WELL = {"bytes": GB, "in_use": GB, "quota": 8 * GB, "alarm": ""}


def judged(etcd: dict[str, Any] | None, limits: dict[str, Any] | None = None) -> CheckResult:
    site = SITE
    if limits:
        site = site_of("head", kubernetes={"version": "1.35"}, limits=limits)
    head = site.with_role(Role.CONTROL)[0]
    facts = facts_of(head.name, kubernetes={"etcd": etcd})
    (found,) = judge_etcd(View(profile_of(), site, {head.name: facts}), head, facts)
    return found.of("kubernetes.etcd")


def test_one_with_room_passes_with_its_size() -> None:
    result = judged(WELL)
    assert (result.status, result.value) == (Status.PASS, 12.5)
    assert result.evidence == "1.0 GB of 8.0 GB, 1.0 GB in use"


def test_one_that_is_full_says_so_in_one_line_with_the_verb() -> None:
    result = judged({**WELL, "bytes": 8 * GB, "alarm": "NOSPACE"})
    assert (result.status, result.fix) == (Status.FAIL, "appliance etcd repair")
    assert result.cause == (
        "etcd is full and refuses all changes but deletions: its database has 8.0 GB of 8.0 GB"
    )
    # The alarm alone is enough.
    unsized = {"bytes": None, "in_use": None, "quota": None, "alarm": "NOSPACE"}
    assert judged(unsized).status is Status.FAIL


def test_members_that_differ_are_no_matter_of_room() -> None:
    result = judged({**WELL, "alarm": "CORRUPT"})
    assert result.status is Status.FAIL
    assert "appliance etcd restore" in result.fix
    assert "repair" not in result.fix


@pytest.mark.parametrize(
    ("given", "status"),
    [
        ({"bytes": 6.3 * GB, "in_use": 6 * GB}, Status.PASS),
        ({"bytes": 6.4 * GB, "in_use": 6 * GB}, Status.WARN),
        ({"bytes": 2 * GB, "in_use": 1.1 * GB}, Status.PASS),
        ({"bytes": 2 * GB, "in_use": 0.9 * GB}, Status.WARN),
        ({"bytes": 0.4 * GB, "in_use": 0.1 * GB}, Status.PASS),
    ],
    ids=["near", "nearly full", "some free", "mostly free", "small"],
)
def test_what_is_nearly_full_or_mostly_free_space_warns_with_the_verb(
    given: dict[str, float], status: Status
) -> None:
    result = judged({**WELL, **{key: int(value) for key, value in given.items()}})
    assert result.status is status
    assert result.fix == ("appliance etcd repair" if status is Status.WARN else "")


def test_a_disk_that_holds_up_every_change_fails() -> None:
    result = judged({**WELL, "sync_ms": 750.0})
    assert (result.status, result.value) == (Status.FAIL, 750.0)
    assert "waits 750 ms for each write" in result.cause
    assert judged({**WELL, "sync_ms": 20.0}).status is Status.PASS


def test_a_site_sets_the_limit() -> None:
    limit = {"kubernetes.etcd": {"value": 10, "source": "site"}}
    assert judged(WELL, limit).status is Status.WARN


@pytest.mark.parametrize("gone", [*WELL, "all"])
def test_what_was_not_measured_is_not_assessed(gone: str) -> None:
    given = None if gone == "all" else {**WELL, gone: None}
    assert judged(given).status is Status.NOT_ASSESSED
