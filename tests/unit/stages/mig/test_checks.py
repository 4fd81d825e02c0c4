"""Check gpu.mig: as declared, not as declared, and not to be known."""

from typing import Any

import pytest

from appliance.checks.check import HostCheck, View
from appliance.models.facts import HostFacts
from appliance.models.result import CheckResult, Status
from appliance.stages.mig.checks import CHECKS, UNITS
from appliance.stages.mig.site import MigHost, MigOptions
from tests.support.gpu_facts import facts, gpu, lost, profile, site

LAYOUT = "3g.40gb, 2g.20gb"
ENABLED = {"load": "loaded", "active": "active", "sub": "exited", "enabled": "enabled"}
HALF = {"profile": "3g.40gb", "profile_id": 9, "start": 0, "size": 4, "id": 1}
QUARTER = {"profile": "2g.20gb", "profile_id": 14, "start": 4, "size": 2, "id": 5}
PART: dict[str, Any] = {"parts": [{"id": 0, "slices": 3, "uuid": "MIG-1"}]}


def divided(index: int, *instances: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """A GPU in MIG mode."""
    mode = {"mig_enabled": True, "mig_pending": True, "mig": [{**PART, **i} for i in instances]}
    return gpu(index, **{**mode, **changes})


def whole(index: int) -> dict[str, Any]:
    return gpu(index, mig_enabled=False, mig_pending=False, mig=[])


def judge(options: MigOptions, seen: HostFacts) -> list[CheckResult]:
    (check,) = CHECKS
    assert isinstance(check, HostCheck)
    world = View(profile(), site().model_copy(update={"mig": options}), {seen.host: seen})
    return list(check.results(world, world.site.host(seen.host), seen))


def of(*gpus: dict[str, Any], layout: str = LAYOUT, unit: dict[str, str] = ENABLED) -> CheckResult:
    """The last result where one GPU is declared, and the others are left alone."""
    options = MigOptions(hosts={"gpu-1": MigHost(gpus={"0": layout})})
    rest = [whole(index) for index in range(1, 4)]
    *gpus_alone, result = judge(options, facts("gpu-1", *rest, *gpus, units={UNITS[0]: unit}))
    assert all(one.status is Status.PASS for one in gpus_alone)
    return result


def test_a_gpu_as_declared_passes() -> None:
    result = of(divided(0, HALF, QUARTER))
    assert (result.status, result.target) == (Status.PASS, "gpu-1")


def test_a_gpu_declared_whole_passes() -> None:
    assert of(whole(0), layout="disabled").status is Status.PASS


def test_a_site_that_declares_nothing_is_not_judged() -> None:
    assert judge(MigOptions(), facts("gpu-1", divided(0, HALF))) == []


@pytest.mark.parametrize(
    ("found", "layout", "cause"),
    [
        (whole(0), LAYOUT, "not divided, declared 3g.40gb, 2g.20gb"),
        (divided(0), LAYOUT, "in MIG mode without instances, declared"),
        (divided(0, HALF), LAYOUT, "divided into 3g.40gb, declared 3g.40gb, 2g.20gb"),
        (divided(0, HALF), "disabled", "divided into 3g.40gb, declared disabled"),
        (divided(0, HALF, {**QUARTER, "start": 6}), LAYOUT, "not with the declared placements"),
        (divided(0, HALF, {**QUARTER, "parts": []}), LAYOUT, "not fully usable"),
        (divided(0, HALF, QUARTER, mig_pending=False), LAYOUT, "MIG mode off waits for a reset"),
    ],
)
def test_a_gpu_that_differs_fails(found: dict[str, Any], layout: str, cause: str) -> None:
    result = of(found, layout=layout)
    assert (result.status, result.target) == (Status.FAIL, "gpu-1/GPU 0")
    assert cause in result.cause
    assert "appliance mig apply" in result.fix


def test_instances_nothing_would_make_again_fail() -> None:
    result = of(divided(0, HALF, QUARTER), unit={**ENABLED, "enabled": "disabled"})
    assert (result.status, result.target) == (Status.FAIL, f"gpu-1/{UNITS[0]}")
    assert "gone after a reboot" in result.cause


@pytest.mark.parametrize(
    ("found", "cause"),
    [
        (gpu(0, mig_enabled=None), "does not report whether it is divided"),
        (divided(0, mig=None), "not read"),
        (lost(0), "does not answer"),
    ],
)
def test_what_was_not_read_is_not_assessed(found: dict[str, Any], cause: str) -> None:
    result = of(found)
    assert result.status is Status.NOT_ASSESSED
    assert cause in result.cause


def test_numbers_that_may_have_moved_are_not_judged() -> None:
    options = MigOptions(hosts={"gpu-1": MigHost(gpus={"0": LAYOUT})})
    seen = facts("gpu-1", units={UNITS[0]: ENABLED})
    assert seen.gpus is not None
    fewer = seen.gpus.model_copy(update={"devices": seen.gpus.devices[:3]})
    (result,) = judge(options, seen.model_copy(update={"gpus": fewer}))
    assert (result.status, result.cause[:16]) == (Status.NOT_ASSESSED, "3 of 4 GPUs answ")


def test_without_gpus_or_units_nothing_is_good() -> None:
    options = MigOptions(layout=LAYOUT)
    results = judge(options, facts("gpu-1", gpus=None, units={}))
    assert [r.status for r in results] == [Status.NOT_ASSESSED] * 2
