"""Errors of memory, PCIe and NVMe drives as the probe reads them at the kernel's own interfaces."""

import ctypes
import fcntl
import os
import struct
from collections.abc import Callable
from typing import Any

import pytest

from appliance.lab.board import CORRECTABLE, UNCORRECTABLE, health_page, pcie_counters
from appliance.models.facts_host import MemoryErrors, Nvme, PcieErrors
from appliance.probe.__main__ import answer
from appliance.probe.ask import Ask
from appliance.probe.collectors import aer, edac, nvme
from appliance.probe.problems import Unreadable

Grow = Callable[[dict[str, Any]], str]
MC = "/sys/devices/system/edac/mc/mc0"
MEMORY = {
    f"{MC}/mc_name": "Intel_10nm Socket#0 IMC#0\n",
    f"{MC}/ce_count": "7\n",
    f"{MC}/ue_count": "2\n",
    f"{MC}/ce_noinfo_count": "1\n",
    f"{MC}/ue_noinfo_count": "0\n",
    f"{MC}/seconds_since_reset": "864000\n",
    f"{MC}/dimm0/dimm_label": "CPU_SrcID#0_MC#0_Chan#0_DIMM#0\n",
    f"{MC}/dimm0/dimm_ce_count": "6\n",
    f"{MC}/dimm0/dimm_ue_count": "0\n",
    f"{MC}/dimm1/dimm_label": "\n",
    f"{MC}/dimm1/dimm_ce_count": "0\n",
    f"{MC}/dimm1/dimm_ue_count": "2\n",
    f"{MC}/dimm2/dimm_label": "CPU_SrcID#0_MC#0_Chan#2_DIMM#0\n",
    f"{MC}/dimm2/dimm_ce_count": "0\n",
    f"{MC}/dimm2/dimm_ue_count": "0\n",
    "/sys/devices/system/edac/mc/mc1/ce_count": "0\n",
    "/sys/devices/system/edac/mc/mc1/ue_count": "0\n",
    "/sys/devices/system/edac/mc/mc1/seconds_since_reset": "863000\n",
    "/sys/devices/system/edac/mc/power/control": "auto\n",
}
CONTAINER = {"/run/systemd/container": "systemd-nspawn\n"}
ROOT = "/sys/devices/pci0000:16/0000:16:02.0"
GPU, HCA, DRIVE = (f"{ROOT}/0000:{bus}:00.0" for bus in ("17", "18", "19"))


def counters(at: str, **counts: dict[str, int]) -> dict[str, str]:
    return {f"{at}/{name}": f"{text}\n" for name, text in pcie_counters(**counts).items()}


def bus(**changes: dict[str, dict[str, int]]) -> dict[str, Any]:
    """A GPU, an adapter and a drive behind one root port, a network card that does not matter."""
    return {
        f"{GPU}/vendor": "0x10de\n",
        f"{GPU}/class": "0x030200\n",
        f"{HCA}/class": "0x020700\n",
        f"{DRIVE}/class": "0x010802\n",
        "/sys/bus/pci/devices/0000:17:00.0": {"link": GPU_LINK},
        "/sys/class/infiniband/mlx5_0/device": {"link": "../../../" + HCA.removeprefix("/sys/")},
        "/sys/class/nvme/nvme0/device": {"link": "../../../" + DRIVE.removeprefix("/sys/")},
        **counters(GPU, **changes.get("gpu", {})),
        **counters(HCA, **changes.get("hca", {})),
        **counters(DRIVE),
        **counters(ROOT, **changes.get("port", {})),
        **counters("/sys/devices/pci0000:00/0000:00:1f.0", aer_dev_fatal={"DLP": 9}),
    }


GPU_LINK = "../../../" + GPU.removeprefix("/sys/")


def memory(root: str) -> MemoryErrors | None:
    found = edac.collect(Ask({}, root))["memory_errors"]
    return None if found is None else MemoryErrors.model_validate(found)


def pcie(root: str) -> PcieErrors | None:
    found = aer.collect(Ask({}, root))["pcie_errors"]
    return None if found is None else PcieErrors.model_validate(found)


def test_memory_errors_are_added_up_and_the_modules_that_have_some_are_named(grow: Grow) -> None:
    found = memory(grow(MEMORY))
    assert found is not None
    assert (found.controllers, found.corrected, found.uncorrected) == (2, 7, 2)
    assert found.since_s == 864000
    assert [(m.label, m.corrected, m.uncorrected) for m in found.modules] == [
        ("CPU_SrcID#0_MC#0_Chan#0_DIMM#0", 6, 0),
        ("mc0 dimm1", 0, 2),
    ]


def test_a_host_without_a_driver_for_its_memory_counts_nothing(grow: Grow) -> None:
    found = memory(grow({"/sys/devices/system/edac/mc/power/control": "auto\n"}))
    assert found == MemoryErrors(controllers=0, corrected=0, uncorrected=0)


@pytest.mark.parametrize("lost", ["ce_count", "ue_count", "dimm1/dimm_ue_count"])
def test_a_count_that_cannot_be_read_is_no_zero(grow: Grow, lost: str) -> None:
    with pytest.raises(Unreadable, match="holds no number"):
        memory(grow({**MEMORY, f"{MC}/{lost}": "\n"}))


def test_a_container_leaves_its_machines_hardware_alone(grow: Grow) -> None:
    root = grow({**MEMORY, **bus(), **CONTAINER})
    assert memory(root) is None
    assert pcie(root) is None
    assert nvme.collect(Ask({}, root)) == {"nvme": None}


def test_a_sound_bus_is_a_count_of_devices(grow: Grow) -> None:
    found = pcie(grow(bus()))
    assert found == PcieErrors(devices=4)


def test_devices_with_errors_are_named_and_so_is_the_bridge_above_them(grow: Grow) -> None:
    found = pcie(
        grow(
            bus(
                gpu={"aer_dev_fatal": {"SDES": 1, "TLP": 1}},
                hca={"aer_dev_correctable": {"BadTLP": 12}},
                port={"aer_dev_nonfatal": {"CmpltTO": 3}},
            )
        )
    )
    assert found is not None
    told = [(d.at, d.device, d.fatal, d.nonfatal, d.correctable) for d in found.errors]
    assert told == [
        ("0000:16:02.0", "bridge above the GPU", 0, 3, 0),
        ("0000:17:00.0", "the GPU", 2, 0, 0),
        ("0000:18:00.0", "mlx5_0", 0, 0, 12),
    ]


def test_a_device_whose_errors_nobody_counts_is_named(grow: Grow) -> None:
    tree = {name: text for name, text in bus().items() if not name.startswith(f"{HCA}/aer")}
    found = pcie(grow(tree))
    assert found == PcieErrors(devices=3, uncounted=("0000:18:00.0",))
    assert pcie(grow({"/sys/bus/pci/devices/.keep": ""})) is not None


def test_a_file_without_its_total_is_no_zero(grow: Grow) -> None:
    found = pcie(grow({**bus(), f"{GPU}/aer_dev_fatal": "Undefined 0\nDLP 0\n"}))
    assert found is not None
    assert found.uncounted == ("0000:17:00.0",)


def test_the_racks_counters_have_the_kernels_shape() -> None:
    files = pcie_counters(aer_dev_correctable={"RxErr": 2})
    assert files["aer_dev_correctable"].startswith("RxErr 2\nBadTLP 0\n")
    assert files["aer_dev_correctable"].endswith("\nTOTAL_ERR_COR 2")
    assert files["aer_dev_fatal"].endswith("\nTOTAL_ERR_FATAL 0")
    assert len(files["aer_dev_nonfatal"].splitlines()) == len(UNCORRECTABLE) + 1
    assert "HeaderOF" in CORRECTABLE


def drives(root: str) -> tuple[Nvme, dict[str, str]]:
    ask = Ask({}, root)
    return Nvme.model_validate(nvme.collect(ask)["nvme"]), ask.errors


def answering(pages: dict[str, bytes | int]) -> Callable[[int, int, bytearray], int]:
    """What the kernel's driver does with the command, for a drive by its device file's name."""

    def ioctl(fd: int, request: int, command: bytearray) -> int:
        assert request == 0xC0484E41
        assert len(command) == 72
        fields = struct.unpack("=BBHIIIQQIIIIIIIIII", command)
        opcode, namespace, address, size, which = (fields[n] for n in (0, 3, 7, 9, 10))
        assert (opcode, namespace, size) == (0x02, 0xFFFFFFFF, 512)
        assert which & 0xFF == 0x02
        assert (which >> 16) + 1 == 512 // 4
        page = pages[os.path.basename(os.readlink(f"/proc/self/fd/{fd}"))]  # noqa: PTH119, PTH115
        if isinstance(page, int):
            return page
        ctypes.memmove(address, page, len(page))
        return 0

    return ioctl


NVME = {
    "/sys/class/nvme/nvme0/state": "live\n",
    "/sys/class/nvme/nvme0/transport": "pcie\n",
    "/dev/nvme0": "",
    "/sys/class/nvme/nvme1/state": "live\n",
    "/sys/class/nvme/nvme1/transport": "pcie\n",
    "/dev/nvme1": "",
    "/sys/class/nvme/nvme2/state": "live\n",
    "/sys/class/nvme/nvme2/transport": "tcp\n",
}


def test_drives_are_asked_for_their_health_page(
    grow: Grow, monkeypatch: pytest.MonkeyPatch
) -> None:
    spent = health_page(warning=0x09, spare=2, used=131, media_errors=70_000)
    ioctl = answering({"nvme0": health_page(), "nvme1": spent})
    monkeypatch.setattr(fcntl, "ioctl", ioctl)
    found, errors = drives(grow(NVME))
    assert (found.drives, found.most_used, found.unasked, errors) == (2, 131, (), {})
    (drive,) = found.notable
    assert (drive.name, drive.warning, drive.spare, drive.spare_least) == ("nvme1", 9, 2, 10)
    assert (drive.used, drive.media_errors) == (131, 70_000)


def test_a_drive_that_refuses_or_says_nothing_was_not_asked(
    grow: Grow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fcntl, "ioctl", answering({"nvme0": 0x4002, "nvme1": bytes(512)}))
    found, errors = drives(grow(NVME))
    assert (found.unasked, found.most_used, found.notable) == (("nvme0", "nvme1"), None, ())
    assert "nvme0: it returns no health page, status 0x4002" in errors["nvme"]
    assert "nvme1: its health page is empty" in errors["nvme"]


def test_a_file_that_is_no_drive_and_one_that_is_not_there(grow: Grow) -> None:
    tree = {name: text for name, text in NVME.items() if name != "/dev/nvme1"}
    found, errors = drives(grow(tree))
    assert found.unasked == ("nvme0", "nvme1")
    assert "nvme0: Inappropriate ioctl for device" in errors["nvme"]
    assert "nvme1: No such file or directory" in errors["nvme"]


def test_a_dead_controller_is_told_and_one_at_a_reset_is_left_alone(
    grow: Grow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fcntl, "ioctl", answering({}))
    states = {
        "/sys/class/nvme/nvme0/state": "dead\n",
        "/sys/class/nvme/nvme1/state": "resetting\n",
    }
    found, errors = drives(grow({**NVME, **states}))
    assert [(drive.name, drive.dead) for drive in found.notable] == [("nvme0", True)]
    assert found.unasked == ("nvme1",)
    assert errors["nvme"] == "nvme1: its controller is resetting"


def test_a_host_without_drives_opens_nothing(grow: Grow) -> None:
    found, errors = drives(grow({"/sys/bus/.keep": ""}))
    assert (found, errors) == (Nvme(drives=0), {})


def test_who_may_not_ask_learns_that_he_needs_root(
    grow: Grow, monkeypatch: pytest.MonkeyPatch
) -> None:
    def closed(_ask: Ask, name: str) -> bytes:
        raise PermissionError(13, "Permission denied", f"/dev/{name}")

    monkeypatch.setattr(nvme, "page", closed)
    said: dict[str, Any] = answer(b'{"areas": ["nvme"]}', grow(NVME))
    assert "nvme" not in said
    assert said["errors"]["nvme"] == "needs root to read /dev/nvme0"
    assert {
        "area": "nvme",
        "text": "needs root to read /dev/nvme0",
        "kind": "denied",
        "at": "",
    } in said["problems"]
