"""Checks of the program that keeps limits of time: each trips on its fault, and what is not known is no pass."""

from typing import Any

import pytest

from appliance.checks.check import View
from appliance.config.load import load_profile
from appliance.models.facts import HostFacts
from appliance.models.result import CheckResult, Kind, Status
from appliance.stages.limits import checks as limits
from tests.support.facts import facts_of
from tests.support.judging import said_by
from tests.support.sites import site_of

QUEUES = [
    {"name": "build", "work": "build", "gpu": {"quota": 1}, "time_limit": "8h", "idle_limit": "30m"}
]
HOSTS = ("head-1", "head-2", "gpu-1")
GIVEN: dict[str, Any] = {
    "kubernetes": {"version": "1.35"},
    "scheduler": {"projects": [{"name": "team", "queues": QUEUES}]},
}
GOOD: dict[str, Any] = {
    "age_s": 20.0,
    "leader": True,
    "holder": "head-1",
    "pods": 12,
    "limited": 4,
    "unknown": {"time": 0, "idle": 0, "any": 0},
    "metrics": "ok",
}
STANDBY = {"age_s": 20.0, "holder": "head-1"}
UNIT = {"load": "loaded", "active": "active", "enabled": "enabled"}


def facts(
    host: str, seen: dict[str, Any] | None, unit: dict[str, str] | None = UNIT, **given: Any
) -> HostFacts:
    units = {limits.UNIT: unit} if unit else {}
    return facts_of(host, units=units, limits=seen, **given)


def judge(check_id: str, *known: HostFacts, site: dict[str, Any] = GIVEN) -> list[CheckResult]:
    view = View(
        site=site_of(*HOSTS, **site),
        profile=load_profile("hpc"),
        facts={one.host: one for one in known},
    )
    return said_by(check_id, view, *(one.host for one in known[:1]))


def one(check_id: str, *known: HostFacts, site: dict[str, Any] = GIVEN) -> CheckResult:
    (result,) = judge(check_id, *known, site=site)
    return result


@pytest.mark.parametrize(
    ("seen", "unit", "status", "told"),
    [
        (GOOD, UNIT, Status.PASS, ""),
        (GOOD, {**UNIT, "active": "failed"}, Status.FAIL, "is failed"),
        (GOOD, {**UNIT, "enabled": "disabled"}, Status.FAIL, "disabled"),
        ({**GOOD, "age_s": 900.0}, UNIT, Status.FAIL, "ended 900 s ago"),
        (None, UNIT, Status.NOT_ASSESSED, "not installed"),
        (GOOD, None, Status.NOT_ASSESSED, "was not read"),
        (GOOD, {**UNIT, "active": "unknown"}, Status.NOT_ASSESSED, "was not read"),
    ],
)
def test_the_program_runs(seen: Any, unit: Any, status: Status, told: str) -> None:
    found = one("limits.running", facts("head-1", seen, unit))
    assert found.status is status
    assert told in found.cause


@pytest.mark.parametrize(
    ("first", "second", "status", "told"),
    [
        (GOOD, STANDBY, Status.PASS, ""),
        (GOOD, GOOD, Status.FAIL, "act at the same time"),
        ({**GOOD, "stuck": 2}, STANDBY, Status.FAIL, "2 workloads are still there"),
        ({**GOOD, "unknown": {"any": 2, "time": 1}}, STANDBY, Status.WARN, "3 workloads are left"),
        ({**GOOD, "unknown": {"idle": 2}}, STANDBY, Status.PASS, ""),
        ({**STANDBY, "problem": "HTTP 403"}, STANDBY, Status.FAIL, "head-1: HTTP 403"),
        (GOOD, {**STANDBY, "problem": "HTTP 403"}, Status.WARN, "head-2: HTTP 403: it could not"),
        ({**GOOD, "problem": "a clock differs"}, STANDBY, Status.FAIL, "a clock differs"),
        ({**STANDBY, "waits": "for queue apply"}, STANDBY, Status.NOT_ASSESSED, "queue apply"),
        (STANDBY, STANDBY, Status.NOT_ASSESSED, "head-1 holds the lease"),
        (None, None, Status.NOT_ASSESSED, "not installed on head-1"),
        ({**GOOD, "age_s": 900.0}, None, Status.NOT_ASSESSED, "900 s ago"),
    ],
)
def test_one_host_keeps_the_limits(first: Any, second: Any, status: Status, told: str) -> None:
    found = one("limits.cluster", facts("head-1", first), facts("head-2", second))
    assert found.status is status
    assert told in found.cause
    assert (found.kind is Kind.WAITS) is bool(first and first.get("waits"))


def test_a_host_that_does_not_answer_is_named() -> None:
    assert "head-1 did not answer" in one("limits.cluster").cause
    assert one("limits.metrics").status is Status.NOT_ASSESSED


@pytest.mark.parametrize(
    ("seen", "status", "told"),
    [
        (GOOD, Status.PASS, ""),
        (
            {**GOOD, "metrics": "http://10.0.0.1:9090 does not answer"},
            Status.FAIL,
            "does not answer",
        ),
        ({**GOOD, "unknown": {"idle": 3}}, Status.FAIL, "3 workloads"),
        ({**GOOD, "metrics": ""}, Status.NOT_ASSESSED, "was not queried"),
        ({**GOOD, "metrics": "", "problem": "a clock differs"}, Status.NOT_ASSESSED, "a clock"),
        ({**GOOD, "problem": "HTTP 503"}, Status.NOT_ASSESSED, "interrupted: HTTP 503"),
        (STANDBY, Status.NOT_ASSESSED, "no control host checks"),
    ],
)
def test_the_use_of_gpus_is_known(seen: Any, status: Status, told: str) -> None:
    found = one("limits.metrics", facts("head-1", seen))
    assert found.status is status
    assert told in found.cause


def test_without_an_idle_limit_no_metrics_are_judged() -> None:
    queues = [{"name": "train", "gpu": {"quota": 1}}]
    site = {**GIVEN, "scheduler": {"projects": [{"name": "team", "queues": queues}]}}
    assert judge("limits.metrics", facts("head-1", STANDBY), site=site) == []
