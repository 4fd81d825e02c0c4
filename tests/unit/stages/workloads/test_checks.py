"""The checks of workloads: each trips on its fault, and a missing measurement is never a pass."""

from dataclasses import replace
from typing import Any

import pytest

from appliance.checks.check import View
from appliance.config.load import load_profile
from appliance.models.result import CheckResult, Status
from appliance.stages.kubernetes.facts import ReleasePod
from appliance.stages.scheduler.facts import (
    HelmRelease,
    NetworkPolicy,
    PolicyEnforcer,
    SchedulerFacts,
)
from appliance.stages.scheduler.queues.manifest import digest
from appliance.stages.workloads import checks as workloads
from appliance.stages.workloads.network import policies
from appliance.stages.workloads.releases import releases
from appliance.stages.workloads.site import Addon, WorkloadsOptions
from tests.support.judging import said_by
from tests.support.kubernetes_facts import facts
from tests.support.scheduler_site import site

PROFILE = load_profile("hpc")
OPTIONS = WorkloadsOptions.model_validate({"nfs_csi": {}, "kuberay": {}, "mlflow": {}})
SITE = site().model_copy(update={"workloads": OPTIONS})
WANTED = releases(SITE)
RELEASES = tuple(
    HelmRelease(
        name=r.name,
        namespace=r.namespace,
        revision=1,
        status="deployed",
        chart=r.name,
        version=r.version or "",
    )
    for r in WANTED
)
PODS = tuple(ReleasePod(name=f"{r.name}-0", namespace=r.namespace, ready=True) for r in WANTED)
POLICIES = tuple(
    NetworkPolicy(
        name="appliance",
        namespace=policy["metadata"]["namespace"],
        admits="ingress" in policy["spec"],
        digest=digest(policy["spec"]),
    )
    for policy in policies(SITE)
)
CALICO = PolicyEnforcer(name="calico-node", namespace="calico-system", ready=4, wanted=4)
NETWORK = {"policies": POLICIES, "enforcers": [CALICO], "rdma": dict.fromkeys("abcd", 0)}
CHECKS = [check.id for check in workloads.CHECKS]


def view(head: Any = None, options: WorkloadsOptions | None = OPTIONS, **known: Any) -> View:
    good = {"releases": RELEASES, "pods": PODS, **NETWORK, "default_classes": ["nfs"], **known}
    said = {"scheduler": SchedulerFacts(**good).model_dump()} if head is None else head
    seen = {"head": facts("head", None, **said)}
    return View(PROFILE, SITE.model_copy(update={"workloads": options}), seen)


def judge(check_id: str, seen: View) -> dict[str, CheckResult]:
    return {r.target: r for r in said_by(check_id, seen)}


@pytest.mark.parametrize("check", CHECKS)
def test_what_is_in_order_passes(check: str) -> None:
    found = judge(check, view())
    assert {r.status for r in found.values()} == {Status.PASS}
    assert found


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("head", [{}, {"errors": {"scheduler": "connection refused"}}])
def test_what_was_not_asked_is_not_assessed(check: str, head: dict[str, Any]) -> None:
    found = judge(check, view(head=head))
    assert {r.status for r in found.values()} == {Status.NOT_ASSESSED}
    assert all(r.cause for r in found.values())


@pytest.mark.parametrize("check", CHECKS)
def test_a_site_that_asks_for_nothing_is_not_judged(check: str) -> None:
    assert judge(check, view(options=None)) == {}


def test_a_release_that_is_missing_or_another_version_fails() -> None:
    old = tuple(
        r.model_copy(update={"version": "0.0.1"}) for r in RELEASES if r.name == "csi-driver-nfs"
    )
    found = judge("workloads.releases", view(releases=old))
    assert len(found) == len(WANTED)
    assert found["head/kuberay-operator"].cause == "kuberay-operator is not installed"
    assert found["head/csi-driver-nfs"].cause.startswith("csi-driver-nfs is 0.0.1, the site's is")
    assert {r.status for r in found.values()} == {Status.FAIL}


def test_a_pod_that_is_not_ready_fails_by_name() -> None:
    sick = ReleasePod(name="n", namespace="csi-nfs", ready=False, reason="ErrImagePull: x")
    found = judge("workloads.pods", view(pods=(*PODS, sick)))
    assert found["head/csi-driver-nfs"].cause == "not ready: n (ErrImagePull: x)"
    assert found["head/kuberay-operator"].status is Status.PASS


@pytest.mark.parametrize(
    ("classes", "cause", "fix"),
    [
        ([], "default StorageClass is none, the site's is nfs", "appliance deploy"),
        (["old"], "default StorageClass is old", "kubectl annotate storageclass old "),
        (["nfs", "old"], "the class of a claim is undefined", "storageclass old "),
    ],
)
def test_a_claim_without_a_class_gets_the_sites_and_no_other(
    classes: list[str], cause: str, fix: str
) -> None:
    (found,) = judge("workloads.storage_class", view(default_classes=classes)).values()
    assert found.status is Status.FAIL
    assert cause in found.cause
    assert fix in found.fix


def test_classes_that_were_not_read_are_not_assessed() -> None:
    (found,) = judge("workloads.storage_class", view(default_classes=None)).values()
    assert (found.status, found.cause) == (Status.NOT_ASSESSED, "StorageClasses were not read")


def test_an_add_on_without_its_policy_is_open_and_said_so() -> None:
    kept = tuple(p for p in POLICIES if p.namespace != "mlflow")
    found = judge("workloads.policies", view(policies=kept))
    assert found["head/mlflow"].status is Status.FAIL
    assert (
        "namespace mlflow has no NetworkPolicy appliance: every pod" in found["head/mlflow"].cause
    )
    assert found["head/mlflow"].fix == "appliance deploy --stage workloads"
    assert found["head/kuberay-operator"].status is Status.PASS


def test_a_policy_that_somebody_changed_fails() -> None:
    other = [p.model_copy(update={"digest": "sha256:0"}) for p in POLICIES]
    found = judge("workloads.policies", view(policies=other))
    assert {r.status for r in found.values()} == {Status.FAIL}
    assert "differs from the site" in found["head/mlflow"].cause


@pytest.mark.parametrize(
    ("more", "status"),
    [({}, Status.WARN), ({"release": "mlflow"}, Status.PASS), ({"admits": False}, Status.PASS)],
)
def test_a_policy_of_somebody_elses_that_lets_in_more_is_named(
    more: dict[str, Any], status: Status
) -> None:
    given = {"name": "allow-all", "namespace": "mlflow", "admits": True, "digest": "", **more}
    other = NetworkPolicy.model_validate(given)
    found = judge("workloads.policies", view(policies=(*POLICIES, other)))
    assert found["head/mlflow"].status is status
    assert found["head/kuberay-operator"].status is Status.PASS
    if status is Status.WARN:
        assert "delete networkpolicy allow-all" in found["head/mlflow"].fix


def network(options: WorkloadsOptions = OPTIONS, **known: Any) -> CheckResult:
    (found,) = judge("workloads.network", view(options=options, **known)).values()
    return found


@pytest.mark.parametrize(
    ("enforcers", "cause", "fix"),
    [
        (
            [],
            "every pod of the cluster can reach mlflow",
            "calico of kubernetes.network does not run",
        ),
        (
            [CALICO.model_copy(update={"ready": 3})],
            "ready on 3 of 4 hosts",
            "kubectl -n calico-system get pods",
        ),
        (
            [CALICO.model_copy(update={"ready": 3, "wanted": 3})],
            "ready on 3 of 4 hosts",
            "describe those of calico-node",
        ),
        (
            [CALICO.model_copy(update={"name": "cilium", "mode": "never"})],
            "every pod of the cluster can reach mlflow",
            "enable-policy: default",
        ),
    ],
)
def test_a_network_that_does_not_enforce_policies_fails(
    enforcers: list[PolicyEnforcer], cause: str, fix: str
) -> None:
    found = network(enforcers=enforcers)
    assert found.status is Status.FAIL
    assert cause in found.cause
    assert fix in found.fix


def test_where_nobody_is_to_be_kept_out_by_it_alone_that_is_a_warning() -> None:
    mlflow = {"mlflow": {"open_to_cluster": True}}
    for options in (WorkloadsOptions(kuberay=Addon()), WorkloadsOptions.model_validate(mlflow)):
        assert network(options, enforcers=[]).status is Status.WARN


def test_a_bridge_has_another_network_as_its_remedy() -> None:
    bridged = site().kubernetes
    assert bridged is not None
    seen = view(enforcers=[])
    bridge = bridged.model_copy(update={"network": "bridge"})
    other = seen.site.model_copy(update={"kubernetes": bridge})
    (found,) = judge("workloads.network", replace(seen, site=other)).values()
    assert "kubernetes.network: calico or cilium" in found.fix


@pytest.mark.parametrize("what", ["policies", "enforcers"])
def test_what_was_not_read_of_the_network_is_not_assessed(what: str) -> None:
    check = {"policies": "workloads.policies", "enforcers": "workloads.network"}[what]
    found = judge(check, view(**{what: None}))
    assert {r.status for r in found.values()} == {Status.NOT_ASSESSED}
    assert all("were not read" in r.cause for r in found.values())
