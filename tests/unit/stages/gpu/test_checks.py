"""The GPU checks: sound hosts, the fault each check is for, and the missing measurement."""

from typing import Any

import pytest

from appliance.checks.check import HostCheck
from appliance.models.result import Status, Verdict, overall
from appliance.models.site import Site
from appliance.stages.gpu.checks import CHECKS
from appliance.stages.gpu.checks.software import SERVICES
from tests.support.gpu_facts import (
    ABSENT,
    ACTIVE,
    DRIVER,
    GPUS,
    H100,
    HOSTS,
    bus,
    facts,
    gpu,
    judge,
    lost,
    one,
    profile,
    site,
    view,
)

IDS = [check.id for check in CHECKS]
OF_HOSTS = [check.id for check in CHECKS if isinstance(check, HostCheck)]
FABRIC_MANAGER, PERSISTENCE = "nvidia-fabricmanager.service", "nvidia-persistenced.service"


@pytest.mark.parametrize("check_id", IDS)
def test_a_sound_site_passes(check_id: str) -> None:
    results = judge(check_id, view())
    assert {r.status for r in results} == {Status.PASS}
    assert not any(r.simulated for r in results)


@pytest.mark.parametrize("check_id", IDS)
def test_what_simulated_gpus_say_is_marked(check_id: str) -> None:
    results = judge(check_id, view(*(facts(host, simulated=("gpu",)) for host in HOSTS)))
    assert all(r.simulated for r in results)
    assert overall(results) is Verdict.PASSED


NOTHING: dict[str, Any] = {
    "gpus": None,
    "pci_gpus": None,
    "pci_gpu_ids": (),
    "fabric_manager": None,
    "units": {},
    "xid_events": None,
    "errors": {"gpus": "no answer within 20 s", "xids": "needs root to read /dev/kmsg"},
}


@pytest.mark.parametrize("check_id", IDS)
def test_what_was_not_measured_is_never_a_pass(check_id: str) -> None:
    results = judge(check_id, view(*(facts(host, **NOTHING) for host in HOSTS)))
    assert results
    assert {(r.status, r.required) for r in results} == {(Status.NOT_ASSESSED, True)}
    assert all(r.cause for r in results)


MEASURED: dict[str, dict[str, Any]] = {
    "gpu.model": {"name": ""},
    "gpu.memory": {"memory": 0},
    "gpu.pcie": {"pcie_width": None},
    "gpu.nvlink": {"nvlinks_active": None},
    "gpu.ecc": {"ecc_enabled": None},
    "gpu.remap": {"remap_pending": None},
    "gpu.clocks": {"clock_event_reasons": None},
    "gpu.temperature": {"temperature": None},
    "gpu.power": {"power_limit": None},
    "gpu.persistence": {"persistence": None},
}


@pytest.mark.parametrize("check_id", MEASURED)
def test_one_gpu_without_a_measurement_keeps_the_host_from_passing(check_id: str) -> None:
    results = judge(check_id, view(facts("gpu-1", gpu(2, **MEASURED[check_id]))))
    assert ("gpu-1/GPU 2", Status.NOT_ASSESSED, True) in [
        (r.target, r.status, r.required) for r in results
    ]
    assert not any(r.target == "gpu-1" and r.status is Status.PASS for r in results)


@pytest.mark.parametrize(
    "changes",
    [
        {"pcie_generation": None},
        {"pcie_max_generation": None},
        {"pcie_max_width": None},
        {"ecc_uncorrected": None},
        {"ecc_uncorrected_aggregate": None},
        {"ecc_uncorrected_aggregate": None, "mig_enabled": True},
        {"sram_uncorrected": None, "sram_exceeded": None},
        {"remap_failed": None},
        {"temperature_slowdown": None},
        {"nvlink_speed": None},
    ],
)
def test_half_a_measurement_is_none(changes: dict[str, Any]) -> None:
    area = {
        "pcie": "gpu.pcie",
        "ecc_": "gpu.ecc",
        "rema": "gpu.remap",
        "sram": "gpu.ecc",
        "temp": "gpu.temperature",
    }
    check_id = area.get(next(iter(changes))[:4], "gpu.nvlink")
    results = judge(check_id, view(facts("gpu-1", gpu(0, **changes))))
    assert overall(results) is Verdict.INCOMPLETE


@pytest.mark.parametrize("check_id", [*MEASURED, "gpu.error", "gpu.count"])
def test_a_lost_gpu_fails_where_it_is_the_matter_and_passes_nowhere(check_id: str) -> None:
    results = judge(check_id, view(facts("gpu-1", lost(1))))
    expected = Status.FAIL if check_id in {"gpu.error", "gpu.count"} else Status.NOT_ASSESSED
    assert expected in {r.status for r in results}
    assert not any(r.target == "gpu-1" and r.status is Status.PASS for r in results)


def test_a_gpu_the_driver_lost_is_named_by_its_place_on_the_bus() -> None:
    result = one("gpu.count", facts("gpu-1", lost(1)))
    assert (result.status, result.target) == (Status.FAIL, f"gpu-1/{bus(1)}")
    assert (result.value, result.limit) == (GPUS - 1, GPUS)
    assert "the driver has lost it" in result.cause


def test_a_gpu_that_left_the_bus_is_placed_by_the_other_hosts() -> None:
    ids = [bus(i) for i in range(GPUS) if i != 2]
    devices = [gpu(i) for i in range(GPUS) if i != 2]
    seen = {"driver": DRIVER, "nvml": "", "devices": devices}
    result = one("gpu.count", facts("gpu-1", pci_gpus=3, pci_gpu_ids=ids, gpus=seen))
    assert (result.status, result.value) == (Status.FAIL, 3)
    assert (
        result.cause
        == f"3 GPUs are on the PCI bus, the class has 4; none at {bus(2)}, where the other hosts have one"
    )


def test_more_gpus_than_the_class_has_are_another_class() -> None:
    ids = [bus(i) for i in range(5)]
    seen = {"driver": DRIVER, "nvml": "", "devices": [gpu(i) for i in range(5)]}
    result = one("gpu.count", facts("gpu-1", pci_gpus=5, pci_gpu_ids=ids, gpus=seen))
    assert (result.status, result.value) == (Status.FAIL, 5)
    assert "reseat" not in result.fix


def test_without_a_driver_the_bus_alone_does_not_pass() -> None:
    bare = facts("gpu-1", gpus=None, errors={"gpus": "no driver library"})
    assert one("gpu.count", bare).status is Status.NOT_ASSESSED
    short = facts("gpu-1", gpus=None, pci_gpus=3, pci_gpu_ids=())
    assert one("gpu.count", short).status is Status.FAIL


def test_counts_that_disagree_without_addresses_fail() -> None:
    seen = {"driver": DRIVER, "nvml": "", "devices": [gpu(i) for i in range(3)]}
    result = one("gpu.count", facts("gpu-1", gpus=seen, pci_gpu_ids=()))
    assert (result.status, result.value) == (Status.FAIL, 3)


# check, what is changed in GPU 1, status, in the cause, in the fix
FAULTS: list[tuple[str, dict[str, Any], Status, str, str]] = [
    ("gpu.model", {"name": "NVIDIA A30"}, Status.FAIL, "NVIDIA A30 is not a GPU", "models"),
    ("gpu.memory", {"memory": 40 << 30}, Status.FAIL, "42.9 GB of memory, the class", "replace it"),
    ("gpu.error", {"error": "X: Unknown Error"}, Status.FAIL, "X: Unknown Error", "--gpu-reset -i 1"),
    ("gpu.pcie", {"pcie_width": 8}, Status.FAIL, "runs at x8, its maximum is x16", "serial 1651"),
    ("gpu.pcie", {"pcie_width": 8, "pcie_max_width": 8}, Status.FAIL, "slot allows x8", "slot"),
    ("gpu.pcie", {"pcie_generation": 3, "pcie_max_generation": 3}, Status.FAIL, "its slot allows Gen3", "firmware"),
    (
        "gpu.pcie",
        {"pcie_generation": 3, "pcie_max_generation": 3, "pcie_gpu_generation": 3},
        Status.FAIL,
        "the GPU allows Gen3",
        "choose the profile",
    ),
    ("gpu.pcie", {"pcie_generation": 1, "utilization": 98}, Status.FAIL, "Gen1 under load (98 %", "reseat GPU 1"),
    ("gpu.pcie", {"pcie_replays": 81}, Status.WARN, "81 transfers", "reseat GPU 1"),
    ("gpu.nvlink", {"nvlinks_active": 11}, Status.FAIL, "1 of 12 NVLinks are down", "nvlink -s -i 1"),
    ("gpu.nvlink", {"nvlink_speed": 20000}, Status.FAIL, "at 20000 of 25000 MB/s", "dcgmi"),
    ("gpu.ecc", {"ecc_enabled": False}, Status.FAIL, "ECC is off", "nvidia-smi -e 1 -i 1"),
    ("gpu.ecc", {"ecc_uncorrected": 2}, Status.FAIL, "2 memory errors could not", "--gpu-reset -i 1"),
    ("gpu.ecc", {"ecc_uncorrected_aggregate": 3}, Status.WARN, "3 uncorrectable", "serial"),
    ("gpu.ecc", {"sram_exceeded": True}, Status.FAIL, "(SRAM) has failed: its errors", "RMA"),
    ("gpu.ecc", {"sram_uncorrected": 4, "ecc_uncorrected_aggregate": 4}, Status.WARN, "4 uncorrectable", "serial"),
    ("gpu.ecc", {"sram_uncorrected": 5}, Status.FAIL, "(SRAM) has failed: 5 uncorrectable", "RMA"),
    ("gpu.ecc", {"mig_enabled": True, "ecc_uncorrected": None, "ecc_uncorrected_aggregate": 3}, Status.WARN, "3 uncorrectable memory errors over its life, at an unknown time", "serial"),
    ("gpu.nvlink", {"mig_enabled": True, "nvlinks_active": 12, "nvlink_speed": 20000}, Status.FAIL, "at 20000", "dcgmi"),
    ("gpu.pcie", {"pcie_generation": 4, "pcie_max_generation": 4, "pcie_width": 4}, Status.FAIL, "runs at x4", "reseat"),
    ("gpu.ecc", {"sram_exceeded": True, "ecc_uncorrected": None}, Status.FAIL, "the GPU's threshold", "RMA"),
    ("gpu.ecc", {"ecc_uncorrected": 2, "ecc_uncorrected_aggregate": None}, Status.FAIL, "2 memory", "--gpu-reset"),
    ("gpu.remap", {"remap_pending": True, "remapped_rows": 1}, Status.WARN, "next reset", "--gpu-reset -i 1"),
    ("gpu.remap", {"remap_failed": True, "remap_pending": True}, Status.FAIL, "could not be replaced", "RMA"),
    ("gpu.clocks", {"clock_event_reasons": 0x8}, Status.FAIL, "hardware slows", "power"),
    ("gpu.clocks", {"clock_event_reasons": 0x48}, Status.FAIL, "heat", "fans"),
    ("gpu.clocks", {"clock_event_reasons": 0x88}, Status.FAIL, "power brake", "power supplies"),
    ("gpu.clocks", {"clock_event_reasons": 0x24}, Status.WARN, "because of heat", "air flow"),
    ("gpu.temperature", {"temperature": 89}, Status.FAIL, "slows down from 89", "fans"),
    ("gpu.temperature", {"temperature": 86, "utilization": 90}, Status.WARN, "3 below", "fans"),
    ("gpu.temperature", {"temperature": 56}, Status.FAIL, "56 °C when idle, but its idle neighbours have 31 °C", "air flow"),
    (
        "gpu.temperature",
        {"temperature": 70, "temperature_slowdown": None, "temperature_margin": 0},
        Status.FAIL,
        "slows down from 70",
        "fans",
    ),
    ("gpu.power", {"power_limit": 300.0}, Status.FAIL, "300 of 400 W", "nvidia-smi -i 1 -pl 400"),
    ("gpu.power", {"power_limit": 300.0, "power_most": 350.0}, Status.FAIL, "300 of 400 W", "allows 350 W at most"),
    ("gpu.persistence", {"persistence": False}, Status.FAIL, "persistence is off", "nvidia-smi -i 1 -pm 1"),
]  # fmt: skip


@pytest.mark.parametrize(("check_id", "changes", "status", "cause", "fix"), FAULTS)
def test_a_planted_fault_trips_its_check_and_names_the_gpu(
    check_id: str, changes: dict[str, Any], status: Status, cause: str, fix: str
) -> None:
    results = [r for r in judge(check_id, view(facts("gpu-1", gpu(1, **changes)))) if r.cause]
    assert [(r.target, r.status) for r in results] == [("gpu-1/GPU 1", status)]
    assert cause in results[0].cause
    assert fix in results[0].fix
    assert "\n" not in results[0].cause + results[0].fix
    assert results[0].evidence == f"{bus(1)}, serial 1651" or check_id == "gpu.error"


def test_every_host_check_has_a_planted_fault() -> None:
    elsewhere = {"gpu.count", "gpu.driver", "gpu.fabric_manager", "gpu.services", "gpu.xid"}
    assert {row[0] for row in FAULTS} | elsewhere == set(OF_HOSTS)


@pytest.mark.parametrize("check_id", ["gpu.pcie", "gpu.clocks", "gpu.memory"])
def test_harmless_states_pass(check_id: str) -> None:
    """Idle at Gen1; idle, power cap and application clocks; 81559 MiB as H100 has them."""
    quiet = gpu(1, pcie_generation=1, clock_event_reasons=0x1 | 0x2 | 0x4, memory=81559 << 20)
    assert one(check_id, facts("gpu-1", quiet)).status is Status.PASS


def test_an_idle_link_says_that_its_generation_was_not_judged() -> None:
    result = one("gpu.pcie", facts("gpu-1", *(gpu(i, pcie_generation=1) for i in range(GPUS))))
    assert result.value == "Gen1 x16 (idle; Gen4 at most)"


@pytest.mark.parametrize(
    ("changes", "status", "required"),
    [
        ({}, Status.PASS, True),
        ({"clock_event_reasons": 0}, Status.NOT_ASSESSED, True),
        ({"clock_event_reasons": None}, Status.NOT_ASSESSED, True),
        ({"clock_event_reasons": 0, "mig_enabled": True}, Status.NOT_ASSESSED, False),
    ],
)
def test_a_slow_link_passes_only_where_the_gpu_is_known_to_rest(
    changes: dict[str, Any], status: Status, required: bool
) -> None:
    unsure = {"pcie_generation": 1, "utilization": None, **changes}
    result = one("gpu.pcie", facts("gpu-1", *(gpu(i, **unsure) for i in range(GPUS))))
    assert (result.status, result.required) == (status, required)


def test_different_gpus_in_one_host_fail() -> None:
    result = one("gpu.model", facts("gpu-1", gpu(3, name=H100)))
    assert (result.status, result.target) == (Status.FAIL, "gpu-1")
    assert "different GPUs in one host" in result.cause


def test_the_data_sheet_of_the_product_counts() -> None:
    hopper = {"name": H100, "nvlinks_active": 18, "nvlink_speed": 26562, "power_limit": 700.0}
    sound = facts("gpu-1", *(gpu(i, **hopper) for i in range(GPUS)))
    assert one("gpu.nvlink", sound).value == 18
    assert one("gpu.power", sound).limit == 700
    few = facts("gpu-1", *(gpu(i, **{**hopper, "nvlinks_active": 12}) for i in range(GPUS)))
    assert {r.status for r in judge("gpu.nvlink", view(few))} == {Status.FAIL}


def test_an_unknown_product_needs_a_limit_of_the_site() -> None:
    new = facts("gpu-1", *(gpu(i, name="NVIDIA B300", power_default=None) for i in range(GPUS)))
    for check_id in ("gpu.nvlink", "gpu.power"):
        assert one(check_id, new).status is Status.NOT_ASSESSED
        assert f"set the limit {check_id}" in one(check_id, new).cause
    limited = view(new, site_=site(gpu_nvlink=12, gpu_power=400))
    assert one("gpu.nvlink", limited).status is Status.PASS
    assert one("gpu.power", limited).limit_source == "our own"


def test_a_site_may_cap_power_and_set_its_own_temperature() -> None:
    capped = facts("gpu-1", gpu(1, power_limit=300.0, temperature=60))
    own = view(capped, site_=site(gpu_power=300, gpu_temperature=50))
    assert one("gpu.power", own).status is Status.PASS
    assert one("gpu.temperature", own).status is Status.FAIL


@pytest.mark.parametrize("interconnect", ["pcie", "nvlink-bridge"])
def test_nvlinks_are_judged_behind_nvswitch_only(interconnect: str) -> None:
    assert judge("gpu.nvlink", view(profile_=profile(interconnect))) == []


def test_a_divided_gpu_is_not_assessed_for_replaced_rows_and_that_is_no_gap() -> None:
    divided = gpu(1, mig_enabled=True, remap_pending=None, remap_failed=None)
    result = one("gpu.remap", facts("gpu-1", divided))
    assert (result.status, result.required) == (Status.NOT_ASSESSED, False)
    assert "MIG" in result.cause


@pytest.mark.parametrize(
    ("check_id", "changes"),
    [
        ("gpu.ecc", {"ecc_uncorrected": None}),
        ("gpu.nvlink", {"nvlinks_active": 0, "nvlink_speed": None}),
        ("gpu.nvlink", {"nvlinks_active": None, "nvlink_speed": None}),
    ],
)
def test_what_a_divided_gpu_does_not_tell_is_no_fault_and_no_gap(
    check_id: str, changes: dict[str, Any]
) -> None:
    divided = view(facts("gpu-1", gpu(1, mig_enabled=True, **changes)))
    (result,) = judge(check_id, divided)
    assert (result.status, result.required) == (Status.NOT_ASSESSED, False)
    assert "MIG" in result.cause
    whole = judge(check_id, view(facts("gpu-1", gpu(1, **changes))))
    assert overall(whole) is not Verdict.PASSED


def test_the_speed_of_simulated_links_may_be_missing() -> None:
    mute = [gpu(i, nvlink_speed=None) for i in range(GPUS)]
    results = judge("gpu.nvlink", view(facts("gpu-1", *mute, simulated=("gpu",))))
    assert overall(results) is Verdict.PASSED


def test_a_driver_of_another_branch_fails() -> None:
    seen = {"driver": "535.261.03", "nvml": "", "devices": [gpu(i) for i in range(GPUS)]}
    result = one("gpu.driver", facts("gpu-1", gpus=seen))
    assert (result.status, result.value, result.limit) == (Status.FAIL, "535.261.03", "580")


def test_no_driver_fails_where_the_probe_could_look() -> None:
    why = {"gpus": "4 NVIDIA GPUs on the bus but no driver library"}
    result = one("gpu.driver", facts("gpu-1", gpus=None, errors=why))
    assert result.status is Status.FAIL
    assert "no driver library" in result.cause


@pytest.mark.parametrize(
    ("kind", "modules", "fix"),
    [
        ("version_mismatch", {"nvidia": {}}, "appliance node reboot gpu-1"),
        ("", {"nouveau": {}}, "nouveau holds the GPUs"),
        ("", {}, "appliance deploy --stage gpu installs it"),
    ],
)
def test_the_remedy_for_a_silent_driver_is_the_one_for_its_cause(
    kind: str, modules: dict[str, Any], fix: str
) -> None:
    said = "NVML does not start"
    told = {"errors": {"gpus": said}, "problems": [{"area": "gpus", "text": said, "kind": kind}]}
    result = one("gpu.driver", facts("gpu-1", gpus=None, modules=modules, **told))
    assert result.status is Status.FAIL
    assert fix in result.fix


def test_a_driver_that_hides_its_version_is_not_assessed() -> None:
    seen = {"driver": "", "nvml": "", "devices": [gpu(i) for i in range(GPUS)]}
    assert one("gpu.driver", facts("gpu-1", gpus=seen)).status is Status.NOT_ASSESSED


def test_hosts_with_another_driver_are_named() -> None:
    seen = {"driver": "580.82.07", "nvml": "", "devices": [gpu(i) for i in range(GPUS)]}
    result = one("gpu.driver_spread", view(facts("gpu-2", gpus=seen)))
    assert result.status is Status.FAIL
    assert "580.82.07 on gpu-2; 580.95.05 on gpu-1, gpu-3" in result.cause


@pytest.mark.parametrize("check_id", ["gpu.driver_spread", "gpu.vbios_spread"])
def test_a_silent_host_keeps_the_cluster_from_passing(check_id: str) -> None:
    seen = view()
    without = {name: f for name, f in seen.facts.items() if name != "gpu-3"}
    result = one(check_id, type(seen)(seen.profile, seen.site, without))
    assert (result.status, result.required) == (Status.NOT_ASSESSED, True)
    assert "gpu-3" in result.cause


def test_outliers_in_firmware_are_named_as_a_warning() -> None:
    result = one("gpu.vbios_spread", view(facts("gpu-2", gpu(3, vbios="92.00.19.00.10"))))
    assert (result.status, result.value) == (Status.WARN, 1)
    assert "gpu-2/GPU 3 92.00.19.00.10" in result.cause


def test_one_host_with_many_gpus_does_not_decide_which_firmware_is_odd() -> None:
    many = [gpu(number, vbios="92.00.19.00.10") for number in range(60)]
    result = one("gpu.vbios_spread", view(facts("gpu-2", *many)))
    assert result.value == 60
    assert "gpu-2/GPU 0 92.00.19.00.10" in result.cause


def test_a_gpu_without_a_firmware_version_keeps_the_cluster_from_passing() -> None:
    result = one("gpu.vbios_spread", view(facts("gpu-2", gpu(3, vbios=""))))
    assert result.status is Status.NOT_ASSESSED
    assert "gpu-2/GPU 3" in result.cause


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        (
            {"fabric_manager": "580.82.07"},
            "fabric manager 580.82.07 does not match driver 580.95.05",
        ),
        ({"fabric_manager": ""}, "no fabric manager is installed"),
        ({"units": {FABRIC_MANAGER: ABSENT}}, "no fabric manager is installed"),
        ({"units": {FABRIC_MANAGER: {**ACTIVE, "active": "failed"}}}, "is failed, enabled"),
        ({"units": {FABRIC_MANAGER: {**ACTIVE, "enabled": "disabled"}}}, "disabled at boot"),
    ],
)
def test_the_fabric_manager_runs_in_step_with_the_driver(
    changes: dict[str, Any], cause: str
) -> None:
    result = one("gpu.fabric_manager", facts("gpu-1", **changes))
    assert result.status is Status.FAIL
    assert cause in result.cause


OFFLINE = {"load": "offline", "active": "unknown", "sub": "", "enabled": ""}
"""What the probe says of any unit where systemd does not run."""


@pytest.mark.parametrize("check_id", ["gpu.fabric_manager", "gpu.persistence", "gpu.services"])
def test_units_nobody_could_ask_of_are_not_assessed(check_id: str) -> None:
    units = dict.fromkeys((FABRIC_MANAGER, PERSISTENCE, *SERVICES), OFFLINE)
    results = judge(check_id, view(facts("gpu-1", units=units)))
    assert Status.NOT_ASSESSED in {r.status for r in results}
    assert not {r.status for r in results} & {Status.FAIL, Status.WARN}


@pytest.mark.parametrize("changes", [{"fabric_manager": None}, {"units": {}}])
def test_a_fabric_manager_half_known_is_not_assessed(changes: dict[str, Any]) -> None:
    result = one("gpu.fabric_manager", facts("gpu-1", **changes))
    assert (result.status, result.required) == (Status.NOT_ASSESSED, True)


@pytest.mark.parametrize(
    ("version", "unit", "status"),
    [
        ("", ABSENT, Status.PASS),
        (DRIVER, ACTIVE, Status.FAIL),
        ("", ACTIVE, Status.FAIL),
        (None, ABSENT, Status.NOT_ASSESSED),
    ],
)
def test_cards_have_no_fabric_manager(
    version: str | None, unit: dict[str, str], status: Status
) -> None:
    host = facts("gpu-1", fabric_manager=version, units={FABRIC_MANAGER: unit})
    assert one("gpu.fabric_manager", view(host, profile_=profile("pcie"))).status is status


@pytest.mark.parametrize(
    "unit", [ABSENT, {**ACTIVE, "active": "inactive"}, {**ACTIVE, "enabled": "disabled"}]
)
def test_persistence_that_ends_with_the_boot_warns(unit: dict[str, str]) -> None:
    host = facts("gpu-1", units={PERSISTENCE: unit})
    daemon = next(r for r in judge("gpu.persistence", view(host)) if r.target == "gpu-1/daemon")
    assert daemon.status is Status.WARN
    told = "deploy --stage gpu" if unit is ABSENT else "systemctl enable --now"
    assert told in daemon.fix
    assert ",  at boot" not in daemon.cause


@pytest.mark.parametrize(
    ("unit", "cause"),
    [
        (ABSENT, "nvidia-dcgm.service is not installed"),
        ({**ACTIVE, "active": "failed"}, "nvidia-dcgm.service is failed, enabled at boot"),
        ({**ACTIVE, "enabled": "disabled"}, "nvidia-dcgm.service is active, disabled at boot"),
    ],
)
def test_a_service_of_the_gpus_that_does_not_run_fails(unit: dict[str, str], cause: str) -> None:
    units = {**dict.fromkeys(SERVICES, ACTIVE), "nvidia-dcgm.service": unit}
    results = judge("gpu.services", view(facts("gpu-1", units=units)))
    assert [r.target for r in results if r.status is Status.FAIL] == ["gpu-1/nvidia-dcgm"]
    assert cause in [r.cause for r in results]


@pytest.mark.parametrize(
    ("check_id", "name"),
    [("gpu.services", "nvidia-dcgm.service"), ("gpu.fabric_manager", FABRIC_MANAGER), ("gpu.persistence", PERSISTENCE)],
)  # fmt: skip
def test_a_suspended_service_is_restarted(check_id: str, name: str) -> None:
    units = dict.fromkeys((FABRIC_MANAGER, PERSISTENCE, *SERVICES), ACTIVE)
    suspended = {**ACTIVE, "active": "suspended"}
    results = judge(check_id, view(facts("gpu-1", units={**units, name: suspended})))
    assert f"on gpu-1: systemctl restart {name}" in [r.fix for r in results]


def test_the_distributions_own_driver_comes_without_services() -> None:
    own = Site.model_validate(
        {**site().model_dump(), "repositories": {"gpu": {"source": "distribution"}}}
    )
    assert judge("gpu.services", view(site_=own)) == []


@pytest.mark.parametrize(
    ("branch", "status"),
    [("580", Status.PASS), ("580.95.05", Status.PASS), ("580.82.07", Status.FAIL)],
)
def test_a_driver_chosen_exactly_must_be_exactly_that(branch: str, status: Status) -> None:
    exact = profile()
    software = exact.software.model_copy(update={"driver_branch": branch})
    chosen = exact.model_copy(update={"software": software})
    assert one("gpu.driver", view(profile_=chosen)).status is status


def test_every_result_names_its_limit_and_source_where_there_is_one() -> None:
    for check_id in ("gpu.count", "gpu.memory", "gpu.pcie", "gpu.nvlink", "gpu.ecc", "gpu.power"):
        result = one(check_id, view())
        assert result.limit is not None
        assert result.limit_source


@pytest.mark.parametrize(("has", "status"), [(2, Status.PASS), (3, Status.FAIL)])
def test_a_host_is_held_against_the_gpus_its_site_gives_it(has: int, status: Status) -> None:
    """Of a class of up to four: the site says how many were bought."""
    declared = site()
    hosts = tuple(
        host.model_copy(update={"gpus": has}) if host.name == "gpu-1" else host
        for host in declared.hosts
    )
    devices = {"driver": DRIVER, "nvml": f"13.{DRIVER}", "devices": [gpu(0), gpu(1)]}
    bought = facts("gpu-1", gpus=devices, pci_gpus=2, pci_gpu_ids=(bus(0), bus(1)))
    seen = view(bought, site_=declared.model_copy(update={"hosts": hosts}))
    assert {r.status for r in judge("gpu.count", seen)} == {status}
    assert {r.status for r in judge("gpu.count", seen, "gpu-2")} == {Status.PASS}
