"""Checks of containers in Slurm jobs: each trips on its fault, and what is not known is no pass."""

from typing import Any

import pytest

from appliance.checks.check import View
from appliance.config.load import load_profile
from appliance.models.result import CheckResult, Status
from appliance.stages.slurm.checks import containers
from tests.support.facts import facts_of
from tests.support.judging import said_by
from tests.support.sites import site_of

DIGEST = "a" * 64
SITE: dict[str, Any] = {
    "software": {"enroot": "4.1", "pyxis": "0.24"},
    "slurm": {
        "containers": {
            "enroot": [{"file": "enroot_4.1.2-1_amd64.deb", "sha256": DIGEST}],
            "pyxis": {"file": "pyxis-0.24.0.tar.gz", "sha256": DIGEST},
        }
    },
}
PLUGIN: dict[str, Any] = {
    "path": "/usr/local/lib/slurm/spank_pyxis.so",
    "there": True,
    "configured": True,
    "release": "0.24.0",
    "built_for": "22.05.8",
    "offers": True,
}
GOOD: dict[str, Any] = {
    "slurm": "22.05.8",
    "plugin": PLUGIN,
    "enroot": "4.1.2-1",
    "kernel": {
        "user.max_user_namespaces": "60000",
        "user.max_mnt_namespaces": "60000",
        "kernel.unprivileged_userns_clone": "1",
    },
    "overlay": True,
    "folder": "/scratch/enroot",
    "free": 500 * 1024**3,
}


def judge(check_id: str, seen: dict[str, Any] | None, **given: Any) -> list[CheckResult]:
    site = given.pop("site", SITE)
    found = facts_of("gpu-1", containers=seen, **given)
    view = View(
        site=site_of("head", "gpu-1", **site), profile=load_profile("hpc"), facts={"gpu-1": found}
    )
    return said_by(check_id, view, "gpu-1")


def one(check_id: str, seen: dict[str, Any] | None, **given: Any) -> CheckResult:
    (result,) = judge(check_id, seen, **given)
    return result


def without(name: str) -> dict[str, Any]:
    return {**SITE, "slurm": {}} if name == "containers" else SITE


@pytest.mark.parametrize("check", [c.id for c in containers.CHECKS])
def test_what_is_as_declared_passes(check: str) -> None:
    assert one(check, GOOD).status is Status.PASS


@pytest.mark.parametrize("check", [c.id for c in containers.CHECKS])
def test_a_site_without_containers_has_nothing_to_judge(check: str) -> None:
    assert judge(check, None, site=without("containers")) == []


@pytest.mark.parametrize("check", [c.id for c in containers.CHECKS])
def test_what_could_not_be_read_is_no_verdict(check: str) -> None:
    found = one(check, None, errors={"containers": "srun did not answer within 5 s"})
    assert (found.status, found.cause) == (
        Status.NOT_ASSESSED,
        "srun did not answer within 5 s",
    )


def test_a_plugin_the_site_no_longer_wants_is_a_fault() -> None:
    found = one("slurm.pyxis", GOOD, site=without("containers"))
    assert found.status is Status.FAIL
    assert "still exists" in found.cause


@pytest.mark.parametrize(
    ("differs", "told"),
    [
        ({"built_for": "21.08.5"}, "built for Slurm 21.08.5, and 22.05.8 runs here"),
        ({"there": False}, "is not the plugin that was built here"),
        ({"configured": False}, "not configured to load it"),
        ({"release": "0.23.1"}, "Pyxis 0.23.1 is installed, 0.24 is configured"),
        (
            {"offers": None, "problem": "srun failed with 1: spank: x"},
            "srun does not load it: srun",
        ),
        ({"offers": False}, "does not list --container-image"),
    ],
)
def test_a_plugin_slurm_cannot_use_fails(differs: dict[str, Any], told: str) -> None:
    found = one("slurm.pyxis", {**GOOD, "plugin": {**PLUGIN, **differs}})
    assert found.status is Status.FAIL
    assert told in found.cause
    assert "appliance deploy" in found.fix


def test_a_host_it_was_never_built_on_fails() -> None:
    assert one("slurm.pyxis", None).status is Status.FAIL
    assert one("slurm.pyxis", {**GOOD, "plugin": None}).status is Status.FAIL


def test_without_srun_nothing_is_said_of_the_plugin() -> None:
    seen = {**GOOD, "slurm": "", "plugin": {**PLUGIN, "offers": None}}
    assert one("slurm.pyxis", seen).status is Status.NOT_ASSESSED


@pytest.mark.parametrize(
    ("differs", "told"),
    [
        ({"enroot": ""}, "is not installed"),
        ({"enroot": "3.5.0-1"}, "enroot 3.5.0-1 is installed, 4.1 is configured"),
        ({"lacks": ["nvidia-container-cli"]}, "nvidia-container-cli is not installed"),
        ({"kernel": {"user.max_user_namespaces": "0"}}, "user.max_user_namespaces is 0"),
        ({"kernel": {containers.NAMESPACES: "0"}}, "only root can create containers"),
        ({"kernel": {containers.APPARMOR: "1"}}, "AppArmor"),
        ({"overlay": False}, "overlays"),
    ],
)
def test_what_enroot_cannot_work_with_fails(differs: dict[str, Any], told: str) -> None:
    found = one("slurm.enroot", {**GOOD, **differs})
    assert found.status is Status.FAIL
    assert told in found.cause
    assert found.fix


@pytest.mark.parametrize(
    "differs",
    [
        {"kernel": {}},
        {"kernel": {"kernel.unprivileged_userns_clone": "1", "user.max_mnt_namespaces": "9"}},
        {"overlay": None},
    ],
)
def test_a_kernel_that_does_not_tell_is_no_pass(differs: dict[str, Any]) -> None:
    assert one("slurm.enroot", {**GOOD, **differs}).status is Status.NOT_ASSESSED


def test_each_stage_of_a_remedy_is_an_option_of_its_own() -> None:
    found = one("slurm.enroot", {**GOOD, "lacks": ["nvidia-container-cli"]})
    assert found.fix.startswith("appliance deploy --stage gpu --stage slurm")


def test_little_room_is_warned_of_by_the_limit_there_is() -> None:
    little = {**GOOD, "free": 40 * 1024**3}
    found = one("slurm.container_room", little)
    assert (found.status, found.value, found.limit) == (Status.WARN, 40.0, 100.0)
    assert "/scratch/enroot has 40 GiB left" in found.cause
    limits = {"slurm.container_room": {"value": 30, "source": "our images are small"}}
    assert (
        one("slurm.container_room", little, site={**SITE, "limits": limits}).status is Status.PASS
    )


def test_a_folder_nobody_could_look_at_is_no_pass() -> None:
    assert one("slurm.container_room", {**GOOD, "free": None}).status is Status.NOT_ASSESSED
