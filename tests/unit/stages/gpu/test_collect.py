"""GPUs through a stand-in for the NVML library: what it supports, what it lacks, and how it fails."""

import ctypes
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.process import run
from appliance.lab.nvml import SOURCES, compile_command, healthy_state, render
from appliance.models.facts import HostFacts
from appliance.probe import bundle, nvml
from appliance.probe.ask import Ask
from appliance.stages.gpu.collect import gpus
from appliance.stages.gpu.facts import Gpu
from tests.support.probe_trees import data, grow, load

__all__ = ["data", "grow", "load"]


Grow = Callable[[dict[str, Any]], str]
NUMBERS = {
    "nvmlSystemGetCudaDriverVersion_v2": 12040,
    "nvmlDeviceGetCount_v2": 1,
    "nvmlDeviceGetCurrPcieLinkWidth": 16,
    "nvmlDeviceGetPowerManagementLimit": 700000,
    "nvmlDeviceGetCurrentClocksThrottleReasons": 1 << 40,
}
TEXTS = {"nvmlSystemGetDriverVersion": b"580.82", "nvmlDeviceGetUUID": b"GPU-1"}


class Fake:
    """Answers like the library: functions by name, missing ones raise AttributeError."""

    def __init__(self, codes: dict[str, int] | None = None) -> None:
        self.codes = codes or {}
        self.nvmlErrorString = Word()

    def __getattr__(self, name: str) -> Callable[..., int]:
        known = {
            "nvmlInit_v2",
            "nvmlShutdown",
            "nvmlDeviceGetHandleByIndex_v2",
            "nvmlDeviceGetNvLinkState",
        }
        known |= {"nvmlDeviceGetComputeRunningProcesses_v3"}
        if name not in known | set(NUMBERS) | set(TEXTS) | set(self.codes):
            raise AttributeError(name)
        return lambda *arguments: self.answer(name, *arguments)

    def answer(self, name: str, *arguments: Any) -> int:
        if name in self.codes:
            return self.codes[name]
        if name in NUMBERS:
            arguments[-1]._obj.value = NUMBERS[name]
        elif name in TEXTS:
            arguments[-2].value = TEXTS[name]
        elif name == "nvmlDeviceGetNvLinkState":
            if arguments[1].value > 3:
                return nvml.INVALID_ARGUMENT
            arguments[-1]._obj.value = int(arguments[1].value != 2)
        elif name == "nvmlDeviceGetComputeRunningProcesses_v3":
            arguments[1]._obj.value = 2
            return nvml.INSUFFICIENT_SIZE
        return nvml.SUCCESS


class Word:
    """nvmlErrorString."""

    def __call__(self, code: int) -> bytes:
        known = {4: b"Insufficient Permissions", 26: b"Deprecated", 9: b"Driver Not Loaded"}
        return {**known, 15: b"GPU is lost", 18: b"Any words", 999: b"Unknown Error"}[code]


@pytest.fixture
def collect(monkeypatch: pytest.MonkeyPatch, grow: Grow) -> Callable[..., tuple[Any, Ask]]:
    """Facts of the area with some calls ending in a code."""

    def go(
        codes: dict[str, int] | None = None, tree: dict[str, Any] | None = None
    ) -> tuple[Any, Ask]:
        monkeypatch.setattr(ctypes, "CDLL", lambda _: Fake(codes))
        ask = Ask({}, grow(tree or {}))
        return gpus.collect(ask), ask

    return go


Collect = Callable[..., tuple[Any, Ask]]


def test_what_a_gpu_does_not_support_is_unknown(collect: Collect) -> None:
    found, ask = collect()
    (device,) = found["gpus"]["devices"]
    gpu = Gpu.model_validate(device)
    assert (gpu.uuid, gpu.pcie_width, gpu.power_limit) == ("GPU-1", 16, 700.0)
    assert (gpu.nvlinks_active, gpu.processes) == (3, 2)
    assert gpu.clock_event_reasons == 1 << 40
    assert (gpu.ecc_enabled, gpu.remap_failed, gpu.mig_enabled, gpu.temperature) == (None,) * 4
    assert (found["gpus"]["driver"], found["gpus"]["cuda"], gpu.error) == ("580.82", "12.4", "")
    assert ask.errors == {}


def test_a_lost_gpu_is_named_and_the_rest_stays_unknown(collect: Collect) -> None:
    found, _ = collect({"nvmlDeviceGetHandleByIndex_v2": 15})
    gpu = Gpu.model_validate(found["gpus"]["devices"][0])
    assert gpu.error == "DeviceGetHandleByIndex_v2: GPU is lost"
    assert gpu.pcie_width is None


def test_a_getter_that_breaks_is_named_and_others_answer(collect: Collect) -> None:
    found, _ = collect({"nvmlDeviceGetTotalEccErrors": 999})
    gpu = Gpu.model_validate(found["gpus"]["devices"][0])
    assert gpu.error == "DeviceGetTotalEccErrors: Unknown Error"
    assert (gpu.ecc_uncorrected, gpu.pcie_width) == (None, 16)


@pytest.mark.parametrize("code", [nvml.NO_PERMISSION, nvml.DEPRECATED])
def test_what_the_driver_will_not_tell_is_unknown_and_the_gpu_not_lost(
    collect: Collect, code: int
) -> None:
    found, _ = collect({"nvmlDeviceGetMemoryInfo": code})
    gpu = Gpu.model_validate(found["gpus"]["devices"][0])
    assert (gpu.error, gpu.memory, gpu.pcie_width) == ("", 0, 16)


def test_a_driver_that_is_not_loaded_is_an_error_and_the_bus_is_told_all_the_same(
    collect: Collect,
) -> None:
    found, ask = collect({"nvmlInit_v2": 9})
    assert (found["gpus"], found["pci_gpus"]) == (None, 0)
    assert ask.errors["gpus"] == "NVML does not start: Driver Not Loaded"
    assert ask.problems == []


def test_a_library_that_is_not_the_drivers_is_known_by_its_code(collect: Collect) -> None:
    _, ask = collect({"nvmlInit_v2": 18})
    assert [(p["area"], p["kind"]) for p in ask.problems] == [("gpus", "version_mismatch")]


def test_gpus_without_a_driver_library_are_an_error(
    grow: Grow, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(_: str) -> None:
        raise OSError("cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", missing)
    root = grow({})
    ask = Ask({}, root)
    nothing = {"pci_gpus": 0, "pci_gpu_ids": [], "gpus": None, "fabric_manager": ""}
    assert gpus.collect(ask) == nothing
    assert ask.errors == {}
    grow(
        {
            "/sys/bus/pci/devices/0000:1b:00.0/vendor": "0x10de\n",
            "/sys/bus/pci/devices/0000:1b:00.0/class": "0x030200\n",
        }
    )
    assert gpus.collect(ask) == {**nothing, "pci_gpus": 1, "pci_gpu_ids": ["0000:1b:00.0"]}
    assert "1 NVIDIA GPUs on the bus but no driver library" in ask.errors["gpus"]


def test_only_display_controllers_of_nvidia_count(grow: Grow, load: Callable[[str], Any]) -> None:
    ask = Ask({}, grow(load("hosts/two-socket/tree.json")))
    assert gpus.pci_gpus(ask) == ["0000:1b:00.0", "0000:9b:00.0"]


@pytest.mark.parametrize(
    ("exit", "version", "error"),
    [(0, "580.95.05", ""), (3, None, "nv-fabricmanager failed with 3")],
)
def test_the_fabric_manager_is_asked_for_its_own_version(
    grow: Grow, exit: int, version: str | None, error: str
) -> None:
    program = {"when": {"--version": "Fabric Manager version is : 580.95.05\n"}, "exit": exit}
    ask = Ask({}, grow({"/usr/bin/nv-fabricmanager": program}))
    assert gpus.collect(ask)["fabric_manager"] == version
    assert ask.errors.get("fabric_manager", "").startswith(error)


def test_what_newer_drivers_add_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    class Newer(Fake):
        def answer(self, name: str, *arguments: Any) -> int:
            record: Any = getattr(arguments[-1] if arguments else None, "_obj", None)
            if name == "nvmlDeviceGetMarginTemperature":
                assert record.version == 0x1000008
                record.margin = -3
            elif name == "nvmlDeviceGetSramEccErrorStatus":
                assert record.version == 0x1000068
                record.exceeded = 1
            elif name == "nvmlDeviceGetFieldValues":
                record.code = 0 if record.field == 164 else nvml.NOT_SUPPORTED
                record.value = 26562
            elif name == "nvmlDeviceGetUtilizationRates":
                record.gpu = 97
            else:
                return super().answer(name, *arguments)
            return nvml.SUCCESS

    calls = ("MarginTemperature", "SramEccErrorStatus", "FieldValues", "UtilizationRates")
    codes = {f"nvmlDeviceGet{call}": 0 for call in calls}
    monkeypatch.setattr(ctypes, "CDLL", lambda _: Newer(codes))
    device = gpus.collect(Ask({}))["gpus"]["devices"][0]
    gpu = Gpu.model_validate(device)
    assert (gpu.temperature_margin, gpu.sram_exceeded) == (-3, True)
    assert (gpu.nvlink_speed, gpu.utilization) == (26562, 97)
    assert gpu.error == ""


def test_a_record_of_another_version_is_not_known_rather_than_an_error(collect: Collect) -> None:
    found, _ = collect({"nvmlDeviceGetMarginTemperature": nvml.VERSION_MISMATCH})
    assert Gpu.model_validate(found["gpus"]["devices"][0]).error == ""


@pytest.mark.skipif(
    shutil.which("gcc") is None, reason="needs gcc to build the rack's NVML library"
)
def test_the_whole_probe_reads_the_racks_library(tmp_path: Path) -> None:
    library = tmp_path / nvml.LIBRARY
    run(compile_command(library, sorted(SOURCES.glob("*.c"))))
    state = healthy_state("gpu-1")
    state["gpu3"]["pcie_width"] = 8
    (tmp_path / "gpu.state").write_text(render(state))
    env = {"LD_LIBRARY_PATH": str(tmp_path), "APPLIANCE_LAB_GPU_STATE": str(tmp_path / "gpu.state")}
    done = run(bundle.command(), input=bundle.payload({"areas": ["gpus"]}), env=env)
    found = HostFacts.model_validate_json(done.stdout).gpus
    assert found is not None
    assert [gpu.pcie_width for gpu in found.devices] == [16, 16, 16, 8, 16, 16, 16, 16]
    first = found.devices[0]
    assert (first.memory, first.bus_id, first.power_limit) == (80 << 30, "00000000:07:00.0", 400.0)
    assert (first.ecc_enabled, first.mig_enabled, first.nvlinks_active) == (True, False, 12)
    assert (first.power, first.power_least, first.power_most) == (61.0, 100.0, 400.0)
    assert (first.sm_clock, first.memory_clock, first.temperature_slowdown) == (210, 1593, 89)
    assert (first.ecc_uncorrected, first.ecc_uncorrected_aggregate, first.remapped_rows) == (
        0,
        0,
        0,
    )
    assert all(gpu.error == "" for gpu in found.devices)


def test_the_way_to_a_device_is_its_bridges_from_the_root(grow: Grow) -> None:
    place = "devices/pci0000:40/0000:40:01.0/0000:41:00.0/0000:47:00.0"
    at = "/sys/bus/pci/devices/0000:47:00.0"
    root = grow({f"/sys/{place}/vendor": "0x10de\n", at: {"link": f"../../../{place}"}})
    assert gpus.pci_path(root + at) == ["pci0000:40", "0000:40:01.0", "0000:41:00.0"]
    assert gpus.pci_path(root + "/sys/bus/pci/devices/0000:48:00.0") == []
