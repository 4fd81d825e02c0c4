"""NVIDIA GPUs: what NVML says of each, and how many the PCI bus shows."""

from __future__ import annotations

from appliance.probe import files
from appliance.probe.ask import Absent, Ask

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from appliance.probe.ask import Facts
    from appliance.probe.nvml import Library

    Getter = Callable[[Library, Any], object]

PCI = "/bus/pci/devices"
NVIDIA = "0x10de"
DISPLAY = ("0x0300", "0x0302")
"""PCI classes of VGA and 3D controllers; NVSwitches (0x0680) and audio functions are no GPUs."""
MOST_LINKS = 18
"""NVLinks of one GPU at most (NVML_NVLINK_MAX_LINKS)."""


def collect(ask: Ask) -> Facts:
    """The areas ``gpus`` and ``pci_gpus``."""
    on_bus = pci_gpus(ask)
    return {"pci_gpus": on_bus, "gpus": _driver(ask, on_bus)}


def pci_gpus(ask: Ask) -> int:
    """NVIDIA GPUs on the PCI bus."""
    places = (f"{ask.sys}{PCI}/{name}/" for name in files.names(ask.sys + PCI))
    ours = (at for at in places if files.text(at + "vendor") == NVIDIA)
    return sum(files.text(at + "class").startswith(DISPLAY) for at in ours)


def _driver(ask: Ask, on_bus: int) -> Facts | None:
    """All devices. A library that is not there is worth a word only where there are GPUs."""
    from appliance.probe.nvml import Failure, Library

    try:
        library = Library()
        said = {
            "driver": library.text("nvmlSystemGetDriverVersion"),
            "nvml": library.text("nvmlSystemGetNVMLVersion"),
            "cuda": cuda(library.number("nvmlSystemGetCudaDriverVersion_v2")),
        }
        count = library.number("nvmlDeviceGetCount_v2") or 0
    except Absent as error:
        if on_bus:
            ask.problem("gpus", f"{on_bus} NVIDIA GPUs on the bus but no driver library: {error}")
        return None
    except Failure as error:
        ask.problem("gpus", str(error))
        return None
    try:
        return {**said, "devices": [_device(ask, library, index) for index in range(count)]}
    finally:
        library.close()


def cuda(version: int | None) -> str:
    """12040 is 12.4."""
    return f"{version // 1000}.{version % 1000 // 10}" if version else ""


def _device(ask: Ask, library: Library, index: int) -> Facts:
    """One GPU; the first call that fails is its ``error``, and what failed stays unknown."""
    from appliance.probe.nvml import Failure

    gpu: Facts = {"index": index, "uuid": "", "name": "", "bus_id": "", "memory": 0}
    try:
        device = library.handle(index)
    except Failure as error:
        return {**gpu, "error": str(error)}
    for field, getter in GETTERS.items():
        try:
            value = getter(library, device)
        except Failure as error:
            gpu.setdefault("error", str(error))
            continue
        if value is not None:
            gpu[field] = value
    return {**gpu, "numa_node": _numa(ask, gpu["bus_id"])}


def _numa(ask: Ask, bus_id: str) -> int | None:
    """NVML writes the PCI domain with eight digits and in capitals, sysfs with four."""
    node = files.number(f"{ask.sys}{PCI}/{bus_id[-12:].lower()}/numa_node") if bus_id else None
    return None if node is None or node < 0 else node


def _text(name: str) -> Getter:
    return lambda library, device: library.text(name, device)


def _number(name: str) -> Getter:
    return lambda library, device: library.number(name, device)


def _current(name: str) -> Getter:
    """The first of a pair "current, pending", as a yes or no."""

    def get(library: Library, device: Any) -> object:
        pair = library.numbers(name, 2, device)
        return None if pair is None else pair[0] == 1

    return get


def _remapped(place: int) -> Getter:
    """Row remapping: 2 says whether one is pending, 3 whether one failed."""

    def get(library: Library, device: Any) -> object:
        said = library.numbers("nvmlDeviceGetRemappedRows", 4, device)
        return None if said is None else said[place] != 0

    return get


def _bus_id(library: Library, device: Any) -> object:
    import ctypes

    from appliance.probe.nvml import PciInfo

    info = PciInfo()
    known = library.works("nvmlDeviceGetPciInfo_v3", device, ctypes.byref(info))
    return info.bus_id.decode() if known else None


def _memory(library: Library, device: Any) -> object:
    import ctypes

    from appliance.probe.nvml import Memory

    memory = Memory()
    known = library.works("nvmlDeviceGetMemoryInfo", device, ctypes.byref(memory))
    return int(memory.total) if known else None


def _watts(library: Library, device: Any) -> object:
    milliwatts = library.number("nvmlDeviceGetPowerManagementLimit", device)
    return None if milliwatts is None else milliwatts / 1000


def _uncorrected(library: Library, device: Any) -> object:
    """ECC errors since the driver was loaded: type 1 is uncorrected, counter 0 volatile."""
    from appliance.probe.nvml import UINT, ULONG

    before = (device, UINT(1), UINT(0))
    return library.number("nvmlDeviceGetTotalEccErrors", *before, type=ULONG)


def _temperature(library: Library, device: Any) -> object:
    from appliance.probe.nvml import UINT

    return library.number("nvmlDeviceGetTemperature", device, UINT(0))


def _nvlinks(library: Library, device: Any) -> object:
    from appliance.probe.nvml import UINT

    states = (
        library.number("nvmlDeviceGetNvLinkState", device, UINT(n)) for n in range(MOST_LINKS)
    )
    known = [state for state in states if state is not None]
    return sum(known) if known else None


def _reasons(library: Library, device: Any) -> object:
    """Renamed in driver 535; the older name still answers on older ones."""
    from appliance.probe.nvml import ULONG

    for name in ("Event", "Throttle"):
        said = library.number(f"nvmlDeviceGetCurrentClocks{name}Reasons", device, type=ULONG)
        if said is not None:
            return said
    return None


def _processes(library: Library, device: Any) -> object:
    """Asked with no room for a list, NVML says only how many there are."""
    import ctypes

    from appliance.probe.nvml import INSUFFICIENT_SIZE, SUCCESS, UINT

    count = UINT(0)
    code = library.call(
        "nvmlDeviceGetComputeRunningProcesses_v3", device, ctypes.byref(count), None
    )
    return count.value if code in {SUCCESS, INSUFFICIENT_SIZE} else None


GETTERS: dict[str, Getter] = {
    "uuid": _text("nvmlDeviceGetUUID"),
    "name": _text("nvmlDeviceGetName"),
    "serial": _text("nvmlDeviceGetSerial"),
    "vbios": _text("nvmlDeviceGetVbiosVersion"),
    "bus_id": _bus_id,
    "memory": _memory,
    "pcie_generation": _number("nvmlDeviceGetCurrPcieLinkGeneration"),
    "pcie_width": _number("nvmlDeviceGetCurrPcieLinkWidth"),
    "pcie_max_generation": _number("nvmlDeviceGetMaxPcieLinkGeneration"),
    "pcie_max_width": _number("nvmlDeviceGetMaxPcieLinkWidth"),
    "temperature": _temperature,
    "power_limit": _watts,
    "ecc_enabled": _current("nvmlDeviceGetEccMode"),
    "ecc_uncorrected": _uncorrected,
    "remap_pending": _remapped(2),
    "remap_failed": _remapped(3),
    "mig_enabled": _current("nvmlDeviceGetMigMode"),
    "nvlinks_active": _nvlinks,
    "clock_event_reasons": _reasons,
    "processes": _processes,
}
