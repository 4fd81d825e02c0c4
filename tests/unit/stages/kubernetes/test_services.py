"""What a cluster stands on: each service's fault is told by its name, and one nobody asked is not called well."""

from typing import Any

import pytest

from appliance.checks.check import View
from appliance.models.facts import HostFacts
from appliance.models.result import CheckResult, Status
from appliance.models.site import Host, Role
from appliance.stages.kubernetes.checks.services import judge_services
from tests.support.facts import facts_of
from tests.support.kubernetes_facts import SITE
from tests.support.profiles import profile_of
from tests.support.sites import site_of

ACTIVE = {"load": "loaded", "active": "active", "sub": "running", "enabled": "enabled"}
WELL = {"kube-proxy": "ok", "kube-scheduler": "ok", "kube-controller-manager": "ok"}


def facts(host: Host, **given: Any) -> HostFacts:
    known = {"units": {"containerd.service": ACTIVE}, "kubernetes": {"services": WELL}}
    return facts_of(host.name, **{**known, **given})


def judged(host: Host, seen: HostFacts) -> dict[str, CheckResult]:
    view = View(profile_of(), SITE, {host.name: seen})
    results = [one.of("kubernetes.services") for one in judge_services(view, host, seen)]
    return {result.target: result for result in results}


HEAD = SITE.with_role(Role.CONTROL)[0]
GPU = SITE.with_role(Role.GPU)[0]


def test_where_all_are_well_all_pass() -> None:
    found = judged(HEAD, facts(HEAD))
    assert set(found) == {f"head/{name}" for name in ("containerd", *WELL)}
    assert {result.status for result in found.values()} == {Status.PASS}
    assert set(judged(GPU, facts(GPU))) == {"gpu-1/containerd", "gpu-1/kube-proxy"}


@pytest.mark.parametrize("name", WELL)
def test_one_that_does_not_answer_is_named_with_its_remedy(name: str) -> None:
    said = {**WELL, name: "does not answer: Connection refused"}
    found = judged(HEAD, facts(HEAD, kubernetes={"services": said}))
    bad = [result for result in found.values() if result.status is Status.FAIL]
    assert [result.target for result in bad] == [f"head/{name}"]
    assert bad[0].cause.startswith("does not answer: Connection refused: ")
    assert name.removeprefix("kube-") in bad[0].fix
    assert {r.status for r in found.values() if r not in bad} == {Status.PASS}


@pytest.mark.parametrize("state", ["inactive", "failed", "activating"])
def test_a_containerd_that_does_not_run_is_told(state: str) -> None:
    units = {"containerd.service": {**ACTIVE, "active": state}}
    result = judged(GPU, facts(GPU, units=units))["gpu-1/containerd"]
    assert result.status is Status.FAIL
    assert result.cause == f"the unit is {state}: no pod starts or stops on this host"
    assert "appliance deploy" in result.fix


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"units": {}, "kubernetes": None}, "head has no kubelet"),
        ({"units": {}, "kubernetes": {"services": {}}}, "it was not queried"),
    ],
)
def test_what_was_not_asked_is_not_called_well(given: dict[str, Any], why: str) -> None:
    found = judged(HEAD, facts(HEAD, **given))
    assert {result.status for result in found.values()} == {Status.NOT_ASSESSED}
    assert found["head/kube-scheduler"].cause == why


@pytest.mark.parametrize(("name", "named"), [("kube-scheduler", ("head-2",)), ("kube-proxy", ())])
def test_a_part_of_the_control_plane_names_the_control_hosts_that_are_silent(
    name: str, named: tuple[str, ...]
) -> None:
    site = site_of("head", "head-2", "gpu-1")
    head = site.host("head")
    seen = facts(head, kubernetes={"services": {**WELL, name: "503"}})
    results = judge_services(View(profile_of(), site, {"head": seen}), head, seen)
    found = {one.of("x").target: one.of("x").names for one in results}
    assert found[f"head/{name}"] == named
