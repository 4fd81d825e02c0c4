"""GPUDirect RDMA and GDRCopy: by module, by dma-buf, by neither, and where nobody can tell."""

from typing import Any

import pytest

from appliance.checks.check import View
from appliance.models.profile import Profile
from appliance.models.result import CheckResult, Status
from appliance.stages.fabric.site import FabricOptions
from appliance.stages.gpu.variables import needs_peer_memory
from tests.support.facts import facts_of
from tests.support.judging import said_by
from tests.support.profiles import profile_of
from tests.support.sites import site_of

PORTS = {"link_layer": "InfiniBand", "ports": 2, "rate_gbps": 200}
DOCA = FabricOptions.model_construct(driver="doca")


def profile(ports: dict[str, Any] = PORTS, **tuned: bool) -> Profile:
    return profile_of(fabric=ports, stages={"tuning": tuned})


def judged(
    modules: tuple[str, ...], kind: str, *, doca: bool = False, gdrcopy: bool = False
) -> CheckResult:
    found = facts_of("gpu-1", modules={name: {} for name in modules}, tuning={"gpu_modules": kind})
    site = site_of("gpu-1")
    if doca:
        site = site.model_copy(update={"fabric": DOCA})
    asked = profile(gpu_direct=not gdrcopy, gdrcopy=gdrcopy)
    view = View(asked, site, {"gpu-1": found})
    (result,) = said_by("fabric.gpu_direct", view, "gpu-1")
    return result


@pytest.mark.parametrize(
    ("modules", "kind", "by"),
    [
        (("nvidia", "nvidia_peermem"), "proprietary", "nvidia_peermem"),
        (("nvidia",), "open", "dma-buf"),
    ],
)
def test_either_way_is_enough(modules: tuple[str, ...], kind: str, by: str) -> None:
    result = judged(modules, kind)
    assert (result.status, result.value) == (Status.PASS, by)


@pytest.mark.parametrize(
    ("doca", "fix"),
    [
        (True, "on gpu-1: modprobe nvidia_peermem"),
        (False, "set repositories.gpu.kernel_modules: open"),
    ],
)
def test_neither_fails_with_the_way_that_this_site_has(doca: bool, fix: str) -> None:
    result = judged(("nvidia",), "proprietary", doca=doca)
    assert result.status is Status.FAIL
    assert "the driver's kernel modules are proprietary" in result.cause
    assert fix in result.fix


def test_without_a_driver_it_is_not_known() -> None:
    result = judged((), "")
    assert (result.status, result.cause) == (Status.NOT_ASSESSED, "no NVIDIA driver is loaded")


def test_gdrcopy_is_judged_by_its_module() -> None:
    assert judged(("gdrdrv",), "", gdrcopy=True).status is Status.PASS
    result = judged(("nvidia",), "open", gdrcopy=True)
    assert (result.status, result.cause) == (Status.FAIL, "the module gdrdrv is not loaded")
    assert "modprobe gdrdrv" in result.fix


def test_a_container_has_its_machines_modules() -> None:
    found = facts_of("gpu-1", os={"container": "systemd-nspawn"})
    view = View(profile(gpu_direct=True), site_of("gpu-1"), {"gpu-1": found})
    (result,) = said_by("fabric.gpu_direct", view, "gpu-1")
    assert (result.status, result.required) == (Status.NOT_ASSESSED, False)


def test_what_was_not_read_is_not_taken_for_a_missing_module() -> None:
    found = facts_of("gpu-1", errors={"tuning": "no answer within 5 s"})
    view = View(profile(gpu_direct=True), site_of("gpu-1"), {"gpu-1": found})
    (result,) = said_by("fabric.gpu_direct", view, "gpu-1")
    assert (result.status, result.cause) == (Status.NOT_ASSESSED, "no answer within 5 s")


def test_a_class_that_asks_for_neither_or_has_no_ports_is_not_judged() -> None:
    none = {"link_layer": "none", "ports": 0, "rate_gbps": 0}
    for asked in (profile(), profile(none, gpu_direct=True)):
        found = facts_of("gpu-1", tuning={"gpu_modules": "proprietary"})
        view = View(asked, site_of("gpu-1"), {"gpu-1": found})
        assert said_by("fabric.gpu_direct", view, "gpu-1") == []


@pytest.mark.parametrize(
    ("kind", "driver", "asked", "loads"),
    [
        ("proprietary", "doca", True, True),
        ("open", "doca", True, False),
        ("proprietary", "inbox", True, False),
        ("proprietary", "doca", False, False),
    ],
)
def test_the_module_is_loaded_where_it_is_the_only_way(
    kind: str, driver: str, asked: bool, loads: bool
) -> None:
    site = site_of("gpu-1")
    gpu = site.repositories.gpu.model_copy(update={"kernel_modules": kind})
    site = site.model_copy(
        update={
            "fabric": FabricOptions.model_validate({"driver": driver}),
            "repositories": site.repositories.model_copy(update={"gpu": gpu}),
        }
    )
    assert needs_peer_memory(profile(gpu_direct=asked), site) is loads
