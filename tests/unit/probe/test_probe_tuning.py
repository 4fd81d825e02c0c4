"""Facts of processors, memory and PCIe from a tree in sysfs's format."""

from pathlib import Path
from typing import Any

import pytest

from appliance.models.facts_host import Tuning
from appliance.probe.ask import Ask
from appliance.probe.collectors.tuning import collect
from tests.support.pci import BRIDGE, GPU, HCA, ROOT_PORT, SWITCH, pci_host, space


def read(root: Path) -> Any:
    found = collect(Ask({}, str(root)))["tuning"]
    Tuning.model_validate(found)
    return found


def test_a_host_that_nobody_tuned(tmp_path: Path) -> None:
    shared = {"iommu": "DMA-FQ", "payload": 128, "read_request": 512, "relaxed": True}
    assert read(pci_host(tmp_path)) == {
        "governors": {"powersave": 2},
        "huge_pages": "always",
        "idle_latency_us": 170,
        "command_line": ["intel_iommu=on", "pci=realloc=on"],
        "gpu_modules": "proprietary",
        "devices": [
            {"kind": "GPU", "at": [GPU], **shared},
            {"kind": "adapter", "at": [HCA], **shared},
        ],
        "bridges": 2,
        "bridges_unread": 0,
        "access_control": {ROOT_PORT: 0x1D, SWITCH: 0x1D},
    }


def test_a_tuned_host(tmp_path: Path) -> None:
    found = read(pci_host(tmp_path, acs=0, adapter=0x5910, iommu="identity"))
    assert found["access_control"] == {}
    assert found["devices"][1] == {
        "kind": "adapter",
        "at": [HCA],
        "iommu": "identity",
        "payload": 128,
        "read_request": 4096,
        "relaxed": True,
    }


def test_relaxed_ordering_that_is_off(tmp_path: Path) -> None:
    found = read(pci_host(tmp_path, gpu=0x2800, adapter=0x2800))
    assert [one["relaxed"] for one in found["devices"]] == [False, False]


@pytest.mark.parametrize(
    ("limits", "latency"),
    [
        (("0", "0"), 170),
        (("20", "20"), 10),
        (("20", "0"), 170),
        (("n/a", "n/a"), 0),
        (("5", "20"), 10),
    ],
)
def test_one_processor_without_a_limit_may_sleep_deeply(
    tmp_path: Path, limits: tuple[str, str], latency: int
) -> None:
    root = pci_host(tmp_path)
    for n, limit in enumerate(limits):
        at = root / f"sys/devices/system/cpu/cpu{n}/power/pm_qos_resume_latency_us"
        at.write_text(limit + "\n")
    assert read(root)["idle_latency_us"] == latency


def test_a_disabled_idle_state_does_not_count(tmp_path: Path) -> None:
    root = pci_host(tmp_path)
    (root / "sys/devices/system/cpu/cpu0/cpuidle/state3/disable").write_text("1\n")
    assert read(root)["idle_latency_us"] == 10


@pytest.mark.parametrize("size", [0, 64, 256])
def test_what_an_ordinary_user_sees_of_a_configuration_space_is_unknown(
    tmp_path: Path, size: int
) -> None:
    """The kernel shows 64 bytes of it without CAP_SYS_ADMIN; a conventional PCI device has 256."""
    root = pci_host(tmp_path)
    for config in root.glob("sys/bus/pci/devices/*/config"):
        config.write_bytes(space()[:size])
    found = read(root)
    assert found["bridges_unread"] == 2
    assert {one["read_request"] for one in found["devices"]} == ({512} if size == 256 else {None})


def test_a_mode_of_the_iommu_that_cannot_be_read_is_not_taken_for_none(tmp_path: Path) -> None:
    root = pci_host(tmp_path)
    (root / "sys/kernel/iommu_groups/18/type").unlink()
    assert read(root)["devices"][0]["iommu"] == "unknown"
    bare = pci_host(tmp_path / "bare", iommu="")
    assert read(bare)["devices"][0]["iommu"] == ""


def test_capabilities_that_point_at_each_other_end(tmp_path: Path) -> None:
    root = pci_host(tmp_path)
    looped = bytearray(space())
    looped[0x41], looped[0x60] = 0x40, 0x01
    (root / "sys/devices" / BRIDGE / SWITCH / GPU / "config").write_bytes(looped)
    looped[0x100:0x104] = (0x0001 | 0x100 << 20).to_bytes(4, "little")
    (root / "sys/devices" / BRIDGE / SWITCH / "config").write_bytes(looped)
    found = read(root)
    assert found["devices"][0]["read_request"] is None
    assert SWITCH not in found["access_control"]


def test_a_container_has_nothing_of_its_own(tmp_path: Path) -> None:
    root = pci_host(tmp_path)
    (root / "run/systemd").mkdir(parents=True)
    (root / "run/systemd/container").write_text("systemd-nspawn\n")
    assert read_or_none(root) is None


def read_or_none(root: Path) -> Any:
    return collect(Ask({}, str(root)))["tuning"]


def test_an_empty_tree_is_unknown_and_not_good(tmp_path: Path) -> None:
    assert read(tmp_path) == {
        "governors": {},
        "huge_pages": "",
        "idle_latency_us": None,
        "command_line": [],
        "gpu_modules": "",
        "devices": [],
        "bridges": 0,
        "bridges_unread": 0,
        "access_control": {},
    }
