"""The check of MIG on demand trips on each of its faults, and what is not known is no pass."""

from typing import Any

import pytest

from appliance.checks.check import ClusterCheck, View
from appliance.config.load import load_profile
from appliance.models.facts import HostFacts
from appliance.models.result import CheckResult, Status
from appliance.stages.mig.checks import demand as mig_demand
from tests.support.facts import facts_of
from tests.support.sites import site_of

POOL = {"name": "slices", "hosts": ["gpu-1"], "mig": "mixed", "mig_on_demand": ["1g.10gb"]}
GIVEN: dict[str, Any] = {
    "kubernetes": {"version": "1.35"},
    "scheduler": {
        "node_pools": [POOL],
        "projects": [{"name": "team", "queues": [{"name": "train"}]}],
    },
}
UNIT = {"load": "loaded", "active": "active", "enabled": "enabled"}
REPORT: dict[str, Any] = {"age_s": 20.0, "free": {"1g.10gb": 2}, "made": 3}
DEMAND: dict[str, Any] = {"waiting": 1}
ROUND: dict[str, Any] = {"age_s": 20.0, "leader": True, "demand": DEMAND}
FAIL, WARN, PASS, UNKNOWN = Status.FAIL, Status.WARN, Status.PASS, Status.NOT_ASSESSED


def gpu(seen: Any = REPORT, unit: Any = UNIT, **given: Any) -> HostFacts:
    units = {mig_demand.UNIT: unit} if unit else {}
    return facts_of("gpu-1", units=units, mig_demand=seen, **given)


def head(seen: Any = ROUND) -> HostFacts:
    return facts_of("head", limits=seen)


def judge(*known: HostFacts, **site: Any) -> dict[str, CheckResult]:
    view = View(
        site=site_of("head", "gpu-1", "gpu-2", **{**GIVEN, **site}),
        profile=load_profile("hpc"),
        facts={one.host: one for one in known},
    )
    (check,) = mig_demand.CHECKS
    assert isinstance(check, ClusterCheck)
    return {result.target: result for result in check.results(view)}


def test_hosts_of_the_pool_and_the_cluster_are_well() -> None:
    found = judge(gpu(), head())
    assert {target: r.status for target, r in found.items()} == {"gpu-1": PASS, "cluster": PASS}
    assert found["gpu-1"].value == 2


@pytest.mark.parametrize(
    ("facts", "status", "told"),
    [
        (gpu(unit={**UNIT, "active": "failed"}), FAIL, "is failed, enabled"),
        (gpu(unit={**UNIT, "enabled": "disabled"}), FAIL, "is active, disabled"),
        (gpu({**REPORT, "age_s": 900.0}), FAIL, "its last round ended 900 s ago"),
        (gpu({**REPORT, "problem": "GPU 0: failed: no"}), FAIL, "GPU 0: failed: no"),
        (gpu({**REPORT, "waits": "waits for a cluster"}), UNKNOWN, "waits for a cluster"),
        (gpu(None), UNKNOWN, "has no settings of what it may divide"),
        (gpu(None, errors={"mig_demand": "cannot be read"}), UNKNOWN, "cannot be read"),
        (gpu(unit=None), UNKNOWN, "was not read"),
        (facts_of("gpu-2"), UNKNOWN, "gpu-1 did not answer"),
    ],
)
def test_a_host_that_does_not_divide_is_said(facts: HostFacts, status: Status, told: str) -> None:
    found = judge(facts, head())["gpu-1"]
    assert (found.status, told in found.cause) == (status, True)


@pytest.mark.parametrize(
    ("seen", "status", "told"),
    [
        ({**ROUND, "demand": {**DEMAND, "troubles": ["gpu-1 does not report"]}}, FAIL, "report"),
        ({**ROUND, "demand": {**DEMAND, "unmet": ["a waits: no room"]}}, WARN, "no room"),
        ({**ROUND, "demand": None}, UNKNOWN, "no policy yet"),
        ({**ROUND, "age_s": 900.0}, UNKNOWN, "no control host watches"),
        ({**ROUND, "leader": False}, UNKNOWN, "no control host watches"),
        (None, UNKNOWN, "no control host watches"),
    ],
)
def test_pods_that_wait_are_said(seen: Any, status: Status, told: str) -> None:
    found = judge(gpu(), head(seen))["cluster"]
    assert (found.status, told in found.cause) == (status, True)


def test_a_site_that_asks_for_none_of_it_is_not_judged() -> None:
    assert judge(gpu(), head(), scheduler=None) == {}
    assert judge(gpu(), head(), kubernetes={"external": "kubeconfig"}) == {}
