"""A host answers what it likes: what no judge foresaw is a result of that host's, and the others are judged."""

from typing import Any

import pytest
from pydantic import ValidationError

from appliance.checks.check import ALL_ROLES, ClusterCheck, HostCheck, View, failed, passed
from appliance.config.load import load_profile
from appliance.errors import ConfigError
from appliance.models.fact_types import LAST
from appliance.models.facts import HostFacts
from appliance.models.result import Place, Status, Verdict, overall
from appliance.probe.collectors.system import UNKNOWN
from appliance.stages.base.ids import FOREIGN
from appliance.stages.catalog import CHECKS
from tests.support.facts import facts_of
from tests.support.sites import site_of

SITE = site_of("head", "gpu-1")
HEAD = SITE.host("head")
STRANGER = {"kind": "file", "at": "/etc/ssh/x", "owner": "root", "line": "", "lines": 1}
UNREAD: dict[str, Any] = {"os": UNKNOWN, "errors": {"os": "IndexError: x"}}


def view(*found: HostFacts) -> View:
    return View(load_profile("hpc"), SITE, {one.host: one for one in found})


def broken(*_: object) -> list[Any]:
    raise ValueError("x dev eth0\n\x1b[2J")


def host_check(judge: Any, **more: Any) -> HostCheck:
    return HostCheck("base.x", "x", ALL_ROLES, judge, "x", **more)


def test_what_a_check_cannot_judge_is_an_error_of_that_host() -> None:
    found = facts_of("head")
    (result,) = host_check(broken).results(view(found), HEAD, found)
    assert (result.status, result.target, result.id) == (Status.ERROR, "head", "base.x")
    assert "could not judge what head answered (ValueError: x dev eth0" in result.cause
    assert result.cause.isprintable()
    assert result.fix
    assert result.evidence.startswith("test_surprises.py:")
    assert overall([result, passed("gpu-1").of("base.x")]) is not Verdict.PASSED


def test_what_ends_half_way_through_a_host_is_an_error() -> None:
    def half(*_: object) -> Any:
        yield passed("head")
        raise IndexError

    (result,) = host_check(half).results(view(), HEAD, facts_of("head"))
    assert result.status is Status.ERROR
    assert "(IndexError)" in result.cause


def test_what_no_check_of_the_cluster_foresaw_is_an_error_of_the_cluster() -> None:
    (result,) = ClusterCheck("base.x", "x", broken, "x").results(view())
    assert (result.status, result.target) == (Status.ERROR, "cluster")
    assert "could not judge what the hosts answered" in result.cause


def test_what_is_meant_for_the_user_stays_an_error_of_the_run() -> None:
    def refused(*_: object) -> list[Any]:
        raise ConfigError("x", "y")

    with pytest.raises(ConfigError):
        host_check(refused).results(view(), HEAD, facts_of("head"))


@pytest.mark.parametrize("when", [1e15, -1e15, 1e18, -1.0, 253402300800.0])
def test_a_date_that_no_calendar_knows_is_told_as_the_nearest(when: float) -> None:
    found = facts_of("head", foreign=[{**STRANGER, "modified": when}])
    assert found.foreign
    assert 0 <= found.foreign[0].modified <= LAST
    check = next(c for c in CHECKS if c.id == FOREIGN)
    assert isinstance(check, HostCheck)
    (result,) = check.results(view(found), HEAD, found)
    assert "/etc/ssh/x" in result.cause
    assert result.status is not Status.ERROR


@pytest.mark.parametrize(
    "route",
    [
        *("", " ", "x dev eth0", "10.0.0.0/24", "10.0.0.0/33 eno1", "10.0.0.1/24 eno1"),
        *("::/0 eno1", "10.0.0.0/24 a b", "10.0.0.0/24  eno1", "999.0.0.0/8 x", "0/0 x"),
        *("10.0.0.0/24 eno1\n", "10.0.0.0/24 \u2028", "\u0661.0.0.0/24 eno1"),
    ],
)
def test_a_route_that_is_none_is_refused_where_facts_are_read(route: str) -> None:
    with pytest.raises(ValidationError, match="routes"):
        facts_of("head", ground={"ours": False, "swaps": {}, "modules": {}, "routes": [route]})


@pytest.mark.parametrize(
    "taken",
    [
        "",
        "now",
        "9999-99-99T00:00:00Z",
        "2026-11-29",
        "2026-11-29T12:00:00",
        "0001-01-01T00:00:00Z",
    ],
)
def test_a_time_that_is_none_is_refused_where_facts_are_read(taken: str) -> None:
    with pytest.raises(ValidationError, match="taken"):
        facts_of("head", taken=taken)


def test_where_nobody_knows_what_the_host_is_nothing_bad_is_said_of_what_hangs_on_it() -> None:
    def bad(*_: object) -> list[Any]:
        told = {"unit": "cores", "limit": 96, "value": 2}
        return [failed("head", "2 cores, the class has 96", "x", **told), passed(Place("head"), 1)]

    found = facts_of("head", **UNREAD)
    first, second = host_check(bad, by_container=True).results(view(found), HEAD, found)
    assert (first.status, first.limit, first.value) == (Status.NOT_ASSESSED, 96, None)
    assert first.cause.endswith("is not known: IndexError: x")
    assert second.status is Status.PASS
    (first, _) = host_check(bad).results(view(found), HEAD, found)
    assert first.status is Status.FAIL
    (first, _) = host_check(bad, by_container=True).results(view(), HEAD, facts_of("head"))
    assert first.status is Status.FAIL


def test_checks_that_ask_whether_it_is_a_container_say_nothing_bad_where_that_is_not_known() -> (
    None
):
    """Found by what they say of facts that differ in nothing else."""
    small = {"cpu": {"model": "x", "sockets": 1, "cores": 2, "threads": 2}, "sysctl": {"vm.x": "1"}}
    host = SITE.host("gpu-1")
    for check in CHECKS:
        if not isinstance(check, HostCheck):
            continue
        machine, lent, unread = (
            facts_of("gpu-1", **small, **more)
            for more in ({}, {"os": {"container": "podman"}}, UNREAD)
        )
        said = [
            {str(r.target): r.status for r in check.results(view(one), host, one)}
            for one in (machine, lent, unread)
        ]
        hangs = [
            at
            for at, status in said[0].items()
            if status is Status.FAIL and said[1].get(at) is not Status.FAIL
        ]
        assert not [at for at in hangs if said[2].get(at) is Status.FAIL], check.id
