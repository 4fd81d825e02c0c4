"""The checks of workloads: each trips on its fault, and a missing measurement is never a pass."""

from typing import Any

import pytest

from appliance.checks import workloads
from appliance.checks.check import ClusterCheck, View
from appliance.config.load import load_profile
from appliance.config.workloads.releases import releases
from appliance.models.facts_scheduler import HelmRelease, ReleasePod, SchedulerFacts
from appliance.models.result import CheckResult, Status
from appliance.models.site_workloads import WorkloadsOptions
from tests.unit.checks.test_kubernetes import facts
from tests.unit.checks.test_scheduler import site

PROFILE = load_profile("hpc")
OPTIONS = WorkloadsOptions.model_validate({"nfs_csi": {}, "kuberay": {}})
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
CHECKS = [check.id for check in workloads.CHECKS]


def view(head: Any = None, options: WorkloadsOptions | None = OPTIONS, **known: Any) -> View:
    good = {"releases": RELEASES, "pods": PODS, "gpus": {}, "default_classes": ["nfs"], **known}
    said = {"scheduler": SchedulerFacts(**good).model_dump()} if head is None else head
    seen = {"head": facts("head", None, **said)}
    return View(PROFILE, SITE.model_copy(update={"workloads": options}), seen)


def judge(check_id: str, seen: View) -> dict[str, CheckResult]:
    check = next(c for c in workloads.CHECKS if c.id == check_id)
    assert isinstance(check, ClusterCheck)
    return {r.target: r for r in check.judge(seen)}


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
        (["nfs", "old"], "which one a claim gets is open", "storageclass old "),
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
