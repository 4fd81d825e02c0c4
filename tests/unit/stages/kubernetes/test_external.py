"""A cluster of somebody else's: its API and its nodes are judged, nothing of its making."""

import pytest

from appliance.checks.check import View
from appliance.config.load import load_profile
from appliance.engine.look.gather import Round
from appliance.engine.look.judge import judge_all
from appliance.models.result import CheckResult, Status
from appliance.stages.kubernetes.checks import CHECKS
from appliance.stages.kubernetes.facts import ExternalCluster, KubernetesNode
from tests.support.sites import site_of

OURS = {"name": "gpu-2", "owner": "slurm"}
SITE = site_of("head", "gpu-1", OURS, kubernetes={"external": "kubeconfig"})
GOOD = KubernetesNode(name="gpu-1", ready=True, version="v1.34.1")
OTHER = KubernetesNode(name="theirs", ready=True, version="v1.34.3")


def judged(brought: ExternalCluster | None) -> dict[str, CheckResult]:
    view = View(load_profile("hpc"), SITE, {}, {}, brought)
    found = judge_all(view, Round({}, {}, brought), [check.id for check in CHECKS])
    return {r.name: r for r in found if r.id.startswith("kubernetes.")}


def test_a_good_cluster_passes_and_a_host_of_slurm_need_not_be_in_it() -> None:
    found = judged(ExternalCluster(api="ok", nodes=(GOOD, OTHER)))
    assert {r.id for r in found.values()} == {check.id for check in CHECKS if check.of_external}
    assert {r.status for r in found.values()} == {Status.PASS}
    assert {r.target for r in found.values()} == {"cluster", "gpu-1"}


@pytest.mark.parametrize(
    ("nodes", "check", "cause"),
    [
        ((OTHER,), "kubernetes.nodes", "no node gpu-1"),
        ((GOOD.model_copy(update={"ready": False}),), "kubernetes.nodes", "not ready"),
        ((GOOD.model_copy(update={"cordoned": True}),), "kubernetes.nodes", "cordoned"),
        ((GOOD, OTHER.model_copy(update={"version": "v1.35.0"})), "kubernetes.versions", "v1.35.0"),
    ],
)
def test_a_fault_trips_its_check_alone(
    nodes: tuple[KubernetesNode, ...], check: str, cause: str
) -> None:
    found = judged(ExternalCluster(api="ok", nodes=nodes))
    (wrong,) = (r for r in found.values() if r.status is not Status.PASS)
    assert (wrong.id, wrong.status) == (check, Status.FAIL)
    assert cause in wrong.cause
    assert wrong.fix


def test_an_api_that_is_silent_fails_and_its_nodes_are_unknown() -> None:
    found = judged(
        ExternalCluster(api="https://c does not accept connections", fix="see whether it runs")
    )
    assert found["kubernetes.external cluster"].status is Status.FAIL
    assert found["kubernetes.external cluster"].fix == "see whether it runs"
    rest = [r for r in found.values() if r.id != "kubernetes.external"]
    assert {r.status for r in rest} == {Status.NOT_ASSESSED}
    assert {r.cause for r in rest} == {"https://c does not accept connections"}


def test_a_cluster_that_nobody_asked_is_unknown() -> None:
    assert {r.status for r in judged(None).values()} == {Status.NOT_ASSESSED}


def test_a_cluster_without_nodes_is_not_good() -> None:
    found = judged(ExternalCluster(api="ok", nodes=()))
    assert found["kubernetes.nodes gpu-1"].status is Status.FAIL
    assert found["kubernetes.versions cluster"].status is Status.NOT_ASSESSED
