"""Images by what runs: each way to differ is found and named, and what cannot be compared is never good."""

from collections.abc import Mapping
from typing import Any

import pytest

from appliance.checks.causes import explain
from appliance.checks.check import ClusterCheck, View, failed
from appliance.config.load import load_profile
from appliance.models.images import Held, ImageLock, full, identity_of
from appliance.models.result import CheckResult, Status
from appliance.stages.catalog import CAUSES
from appliance.stages.kubernetes import ids as kubernetes_ids
from appliance.stages.kubernetes.checks.images import CHECKS, LOCK, running
from appliance.stages.scheduler.facts import PodImage, SchedulerFacts
from tests.support.kubernetes_facts import facts
from tests.support.scheduler_site import site

PROFILE = load_profile("hpc")
PROXY, DNS = "registry.k8s.io/kube-proxy:v1.35.2", "registry.k8s.io/coredns:1.12"
ONE, OTHER = ("sha256:" + digit * 64 for digit in "12")
LOCKED = ImageLock(version=1, images={PROXY: f"digest {ONE}", DNS: f"id {OTHER}"})
HOSTS = ("gpu-2", "head", "gpu-1")


def image(
    name: str = PROXY, id: str = f"registry.k8s.io/kube-proxy@{ONE}", *hosts: str, **given: str
) -> PodImage:
    known = {"namespace": "kube-system", "image": name, "id": id, **given}
    return PodImage.model_validate({**known, "hosts": hosts or HOSTS})


GOOD = (image(), image(DNS, OTHER, "head"))


def view(
    *images: PodImage, lock: ImageLock | None = None, said: Mapping[str, Any] | None = None
) -> View:
    told = SchedulerFacts(releases=(), images=images or GOOD).model_dump()
    head = facts("head", None, **({"scheduler": told} if said is None else said))
    return View(PROFILE, site(), {"head": head}, lock=lock)


def judge(seen: View) -> dict[str, CheckResult]:
    (check,) = CHECKS
    assert isinstance(check, ClusterCheck)
    return {result.target: result for result in check.results(seen)}


@pytest.mark.parametrize("lock", [None, LOCKED])
def test_images_that_are_the_same_everywhere_and_as_accepted_pass(lock: ImageLock | None) -> None:
    (found,) = judge(view(lock=lock)).values()
    assert (found.id, found.target, found.status) == (kubernetes_ids.IMAGES, "head", Status.PASS)
    assert "2 images, 1 of them imported from archives" in found.evidence
    assert ("equal to images.lock" in found.evidence) == (lock is not None)
    assert (LOCK in found.evidence) == (lock is None), "what is not compared is said"


def test_a_name_with_two_digests_fails_whatever_is_locked() -> None:
    moved = image(PROXY, f"mirror/kube-proxy@{OTHER}", "gpu-1")
    for lock in (None, LOCKED):
        found = judge(view(image(PROXY, GOOD[0].id, "head", "gpu-2"), moved, lock=lock))
        (result,) = found.values()
        assert (result.target, result.status) == (f"head/{PROXY}", Status.FAIL)
        assert f"{ONE[:19]} on head, gpu-2, {OTHER[:19]} on gpu-1" in result.cause
        assert f"skopeo inspect docker://{PROXY}" in result.fix
        assert f"crictl rmi {PROXY}" in result.fix


def test_two_archives_under_one_name_fail() -> None:
    (result,) = judge(view(image(DNS, ONE, "head"), image(DNS, OTHER, "gpu-1"))).values()
    assert result.status is Status.FAIL
    assert "import the same archive" in result.fix


@pytest.mark.parametrize("name", [PROXY, DNS])
def test_another_than_was_accepted_fails_and_names_both(name: str) -> None:
    now = {PROXY: f"a/b@{OTHER}", DNS: ONE}[name]
    (result,) = judge(view(image(name, now), lock=LOCKED)).values()
    assert (result.target, result.status) == (f"head/{name}", Status.FAIL)
    assert "on head, gpu-1, gpu-2" in result.cause
    assert ONE[:19] in result.cause
    assert OTHER[:19] in result.cause
    assert LOCK in result.fix


def test_what_nobody_has_accepted_is_a_warning_once_something_was() -> None:
    new = image("ghcr.io/a/new:1", f"ghcr.io/a/new@{ONE}", "gpu-1")
    (result,) = judge(view(*GOOD, new, lock=LOCKED)).values()
    assert (result.target, result.status) == ("head/ghcr.io/a/new:1", Status.WARN)
    assert "was never accepted" in result.cause
    assert LOCK in result.fix
    assert {r.status for r in judge(view(*GOOD, new)).values()} == {Status.PASS}


@pytest.mark.parametrize(
    ("images", "lock", "says"),
    [
        ((image(PROXY, ""),), None, "does not report the digest"),
        ((image(PROXY, "oddity"),), LOCKED, "does not report the digest"),
        ((image(PROXY, "", "gpu-1"), image()), LOCKED, "gpu-1 does not report the digest"),
        ((image(PROXY, GOOD[0].id, "head"), image(PROXY, OTHER, "gpu-1")), None, "be compared"),
        ((image(PROXY, ONE),), LOCKED, "imported from an archive, and fetched by its digest when"),
    ],
)
def test_what_cannot_be_compared_is_not_assessed(
    images: tuple[PodImage, ...], lock: ImageLock | None, says: str
) -> None:
    (result,) = judge(view(*images, lock=lock)).values()
    assert (result.target, result.status) == (f"head/{PROXY}", Status.NOT_ASSESSED)
    assert says in result.cause
    assert result.fix


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({}, "head has no cluster"),
        ({"errors": {"scheduler": "connection refused"}}, "connection refused"),
        ({"scheduler": SchedulerFacts(releases=()).model_dump()}, "images of pods were not read"),
        (
            {"scheduler": SchedulerFacts(releases=(), images=()).model_dump()},
            "no running pod was found",
        ),
    ],
)
def test_what_was_not_asked_is_not_assessed(said: dict[str, Any], why: str) -> None:
    (result,) = judge(view(said=said)).values()
    assert result.status is Status.NOT_ASSESSED
    assert why in result.cause


def test_without_an_api_what_runs_is_not_known_and_what_differs_is_a_fault_of_its_own() -> None:
    silent = failed("head", "does not answer", "look").of("kubernetes.api")
    (unknown,) = judge(view(said={"errors": {"scheduler": "connection refused"}})).values()
    (differs,) = judge(view(image(PROXY, f"a@{OTHER}"), lock=LOCKED)).values()
    _, first, second = explain([silent, unknown, differs], CAUSES)
    assert first.explained_by == "kubernetes.api head"
    assert second.explained_by == ""


def test_a_digest_in_its_name_holds_an_image() -> None:
    name = f"docker.io/library/busybox:1@{ONE}"
    found = view(image(name, f"docker.io/library/busybox@{ONE}"), lock=LOCKED)
    assert {r.status for r in judge(found).values()} == {Status.PASS}
    _, rows, _ = running(found)
    assert rows is not None
    assert [row.held for row in rows] == [Held.NAME]


def test_only_namespaces_of_the_appliance_are_looked_at() -> None:
    theirs = image("a/b:1", f"a/b@{ONE}", namespace="customers")
    moved = image("a/b:1", f"a/b@{OTHER}", namespace="customers")
    ours = image("c/d:1", f"c/d@{ONE}", namespace="gpu-operator")
    _, rows, _ = running(view(*GOOD, theirs, moved, ours))
    assert rows is not None
    assert {row.image for row in rows} == {PROXY, DNS, "docker.io/c/d:1"}


def test_two_ways_to_write_a_name_are_one_name() -> None:
    found = view(
        image("busybox", f"a@{ONE}"), image("docker.io/library/busybox:latest", f"a@{OTHER}")
    )
    (result,) = judge(found).values()
    assert (result.target, result.status) == (
        "head/docker.io/library/busybox:latest",
        Status.FAIL,
    )


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        ("busybox:1", "docker.io/library/busybox:1"),
        ("a/b", "docker.io/a/b:latest"),
        ("localhost/b:1", "localhost/b:1"),
        ("registry:5000/b", "registry:5000/b:latest"),
        (f"a.b/c@{ONE}", f"a.b/c@{ONE}"),
    ],
)
def test_names_are_completed_as_containerd_does(asked: str, name: str) -> None:
    assert full(asked) == name


@pytest.mark.parametrize(
    ("image_id", "identity"),
    [
        (f"registry.k8s.io/pause@{ONE}", f"digest {ONE}"),
        (f"docker-pullable://a/b@{ONE}", f"digest {ONE}"),
        (ONE, f"id {ONE}"),
        (f"docker://{ONE}", f"id {ONE}"),
        ("", ""),
        ("sha256:12", ""),
        (f"a@{ONE}0", ""),
    ],
)
def test_an_image_is_known_by_its_digest_or_its_id(image_id: str, identity: str) -> None:
    assert identity_of(image_id) == identity
