"""Checks of tuned processors, memory and PCIe: each fault, each gap, and a class that tunes nothing."""

from typing import Any

import pytest

from appliance.checks.check import View
from appliance.models.facts import HostFacts
from appliance.models.result import CheckResult, Status
from appliance.stages.base.checks.tuning import BORROWED
from appliance.stages.base.variables import tuning, variables
from appliance.stages.context import RoleContext
from tests.support.judging import said_by
from tests.support.profiles import profile_of
from tests.unit.stages.base.test_checks import PROFILE, SITE, TUNED, facts, pcie

CHECKS = ("base.tuning", "base.pcie_tuning", "base.pcie_firmware")
AT = "0000:19:00.0"


def judged(check: str, found: HostFacts, **tuned: Any) -> list[CheckResult]:
    profile = profile_of(stages={"tuning": tuned}) if tuned else PROFILE
    return said_by(check, View(profile, SITE, {"gpu-1": found}), "gpu-1")


def others(check: str, **changes: Any) -> list[CheckResult]:
    found = judged(check, facts(tuning=changes))
    return [one for one in found if one.status is not Status.PASS]


@pytest.mark.parametrize(
    ("check", "change", "target", "cause", "fix"),
    [
        ("base.tuning", {"governors": {"performance": 1, "powersave": 95}}, "governor",
         "governor powersave, not performance, on 95 of 96 frequency policies", "appliance deploy --stage base --hosts gpu-1"),
        ("base.tuning", {"huge_pages": "always"}, "transparent huge pages",
         "transparent huge pages are always, not madvise", "appliance deploy --stage base"),
        ("base.tuning", {"idle_latency_us": 170}, "idle states",
         "processors enter idle states that they need 170 us to leave, more than 20", "appliance deploy --stage base"),
        ("base.pcie_tuning", {"access_control": {"0000:16:01.0": 0x1D}}, "ACS",
         "1 PCIe bridge above GPUs and adapters with ACS: 0000:16:01.0 has SrcValid, ReqRedir, CmpltRedir", "setpci -s 0000:16:01.0 ECAP_ACS+6.w"),
        ("base.pcie_tuning", {"devices": [pcie("adapter", AT, read_request=512)]}, f"read requests,{AT}",
         f"adapter {AT} reads in requests of 512 bytes, not 4096", "appliance deploy --stage base"),
        ("base.pcie_firmware", {"devices": [pcie("adapter", AT, iommu="DMA")], "command_line": ["iommu=nopt"]}, f"IOMMU,{AT}",
         f"the IOMMU translates addresses of adapter {AT} (mode DMA)", "add iommu=pt to GRUB_CMDLINE_LINUX"),
        ("base.pcie_firmware", {"devices": [pcie("adapter", AT, relaxed=False)]}, f"relaxed ordering,{AT}",
         f"adapter {AT} may not relax the order of its writes: 1 adapter with RlxdOrd-", "servers[].bios of the profile"),
    ],
)  # fmt: skip
def test_a_setting_that_is_off_is_named(
    check: str, change: dict[str, Any], target: str, cause: str, fix: str
) -> None:
    (bad,) = others(check, **change)
    assert (bad.status, bad.target, bad.cause) == (Status.FAIL, f"gpu-1/{target}", cause)
    assert fix in bad.fix
    assert bad.limit_source


def test_a_gpu_without_relaxed_ordering_only_warns() -> None:
    (bad,) = others("base.pcie_firmware", devices=[pcie("GPU", AT, relaxed=False)])
    assert bad.status is Status.WARN


def test_upstream_forwarding_alone_sends_nothing_another_way() -> None:
    assert others("base.pcie_tuning", access_control={"0000:16:01.0": 0x10}) == []


@pytest.mark.parametrize(
    ("check", "change"),
    [
        ("base.tuning", {"governors": {}}),
        ("base.tuning", {"huge_pages": ""}),
        ("base.tuning", {"idle_latency_us": None}),
        ("base.pcie_tuning", {"bridges_unread": 24}),
        ("base.pcie_tuning", {"bridges": 0}),
        ("base.pcie_tuning", {"devices": [pcie("adapter", AT, read_request=None)]}),
        ("base.pcie_firmware", {"devices": [pcie("GPU", AT, relaxed=None)]}),
        ("base.pcie_firmware", {"devices": [pcie("GPU", AT, iommu="unknown")]}),
    ],
)
def test_what_a_machine_does_not_show_is_unknown(check: str, change: dict[str, Any]) -> None:
    (gap,) = others(check, **change)
    assert (gap.status, gap.required) == (Status.NOT_ASSESSED, False)
    assert gap.cause


@pytest.mark.parametrize("check", CHECKS)
def test_a_container_is_not_judged_by_its_machine(check: str) -> None:
    lent = facts(os={"container": "systemd-nspawn"})
    for found in (lent, lent.model_copy(update={"tuning": None})):
        (gap,) = judged(check, found)
        assert (gap.status, gap.required, gap.cause) == (Status.NOT_ASSESSED, False, BORROWED)


def test_what_simulated_devices_say_is_marked() -> None:
    for check in CHECKS[1:]:
        assert all(one.simulated for one in judged(check, facts(simulated=["gpu"])))


@pytest.mark.parametrize("check", CHECKS)
def test_what_a_class_does_not_set_is_not_judged(check: str) -> None:
    found = facts(tuning={"governors": {"powersave": 96}, "access_control": {"0000:16:01.0": 1}})
    view = View(profile_of(), SITE, {"gpu-1": found})
    assert said_by(check, view, "gpu-1") == []


def test_no_iommu_is_as_good_as_one_that_passes_addresses_through() -> None:
    found = facts(tuning={"devices": [pcie("GPU", AT, iommu="")]})
    results = judged("base.pcie_firmware", found, iommu_passthrough=True)
    assert [(one.status, one.value) for one in results] == [(Status.PASS, "no IOMMU")]


def test_a_host_without_gpus_is_left_as_it_is() -> None:
    assert tuning(PROFILE, SITE.host("head")) == {}
    assert tuning(profile_of(), SITE.host("gpu-1")) == {}
    assert tuning(PROFILE, SITE.host("gpu-1")) == {
        "governor": TUNED["governor"],
        "huge_pages": "madvise",
        "idle_latency": "20",
        "read_request": "4096",
        "acs": "off",
    }


def test_a_container_is_given_nothing_to_set() -> None:
    for container, given in (("systemd-nspawn", False), ("", True)):
        found = {"gpu-1": facts(os={"container": container})}
        context = RoleContext(PROFILE, SITE, SITE.host("gpu-1"), {}, found)
        assert bool(variables(context)["base_tuning"]) is given
