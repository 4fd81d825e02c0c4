"""Each value that can be queried from a GPU: its names in nvidia-smi, its unit, and its reader."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, NamedTuple

from appliance.probe.nvml import UINT, ULONG, Library, Memory, PciInfo

if TYPE_CHECKING:
    from collections.abc import Callable

    Read = Callable[[Library, Any], "str | None"]

NOT_KNOWN = "[N/A]"
REASONS = {
    "gpu_idle": 0x1,
    "applications_clocks_setting": 0x2,
    "sw_power_cap": 0x4,
    "hw_slowdown": 0x8,
    "sw_thermal_slowdown": 0x20,
    "hw_thermal_slowdown": 0x40,
    "hw_power_brake_slowdown": 0x80,
}


class Field(NamedTuple):
    """One value; ``read`` returns None if a GPU does not have it."""

    names: tuple[str, ...]
    read: Read
    unit: str = ""


def _text(call: str) -> Read:
    return lambda library, gpu: library.text(f"nvmlDeviceGet{call}", gpu) or None


def _number(call: str, *before: int, words: str = "{}", scale: int = 1, type: Any = UINT) -> Read:
    def read(library: Library, gpu: Any) -> str | None:
        arguments = (UINT(number) for number in before)
        said = library.number(f"nvmlDeviceGet{call}", gpu, *arguments, type=type)
        return None if said is None else words.format(said / scale if scale > 1 else said)

    return read


def _watts(call: str) -> Read:
    return _number(call, words="{:.2f}", scale=1000)


def _one_of(call: str, count: int, place: int, words: tuple[str, ...] = ()) -> Read:
    """One of several numbers of a call, as a word if there are words for it."""

    def read(library: Library, gpu: Any) -> str | None:
        said = library.numbers(f"nvmlDeviceGet{call}", count, gpu)
        if said is None:
            return None
        return words[said[place]] if words else str(said[place])

    return read


def _switch(call: str) -> Read:
    def read(library: Library, gpu: Any) -> str | None:
        said = library.number(f"nvmlDeviceGet{call}", gpu)
        return None if said is None else ("Disabled", "Enabled")[said]

    return read


def _reasons(library: Library, gpu: Any) -> int | None:
    return library.number("nvmlDeviceGetCurrentClocksEventReasons", gpu, type=ULONG)


def _active(library: Library, gpu: Any) -> str | None:
    said = _reasons(library, gpu)
    return None if said is None else f"0x{said:016x}"


def _reason(bit: int) -> Read:
    def read(library: Library, gpu: Any) -> str | None:
        said = _reasons(library, gpu)
        return None if said is None else "Active" if said & bit else "Not Active"

    return read


def _pci(part: Callable[[PciInfo], str]) -> Read:
    def read(library: Library, gpu: Any) -> str | None:
        info = PciInfo()
        known = library.works("nvmlDeviceGetPciInfo_v3", gpu, ctypes.byref(info))
        return part(info) if known else None

    return read


def _memory(part: str) -> Read:
    def read(library: Library, gpu: Any) -> str | None:
        memory = Memory()
        known = library.works("nvmlDeviceGetMemoryInfo", gpu, ctypes.byref(memory))
        return str(getattr(memory, part) >> 20) if known else None

    return read


def _utilization(library: Library, gpu: Any) -> str | None:
    rates = (UINT * 2)()
    known = library.works("nvmlDeviceGetUtilizationRates", gpu, ctypes.byref(rates))
    return str(rates[0]) if known else None


def _compute(library: Library, gpu: Any) -> str | None:
    said = library.numbers("nvmlDeviceGetCudaComputeCapability", 2, gpu)
    return None if said is None else f"{said[0]}.{said[1]}"


def links(library: Library, gpu: Any) -> tuple[int, int]:
    """NVLinks that are up, and all of them."""
    states = [library.number("nvmlDeviceGetNvLinkState", gpu, UINT(link)) for link in range(18)]
    known = [state for state in states if state is not None]
    return sum(known), len(known)


def _ecc(kind: int, counter: int) -> Read:
    return _number("TotalEccErrors", kind, counter, type=ULONG)


ON_OFF = ("Disabled", "Enabled")
YES_NO = ("No", "Yes")
EVENTS = ("clocks_event_reasons", "clocks_throttle_reasons")

FIELDS = (
    Field(("driver_version",), lambda library, _: library.text("nvmlSystemGetDriverVersion")),
    Field(("count",), lambda library, _: str(library.number("nvmlDeviceGetCount_v2"))),
    Field(("index",), _number("Index")),
    Field(("name", "gpu_name"), _text("Name")),
    Field(("uuid", "gpu_uuid"), _text("UUID")),
    Field(("serial", "gpu_serial"), _text("Serial")),
    Field(("vbios_version",), _text("VbiosVersion")),
    Field(("compute_cap",), _compute),
    Field(("compute_mode",), lambda *_: "Default"),
    Field(("persistence_mode",), _switch("PersistenceMode")),
    Field(("pci.bus_id", "gpu_bus_id"), _pci(lambda info: str(info.bus_id.decode()))),
    Field(("pci.device_id",), _pci(lambda info: f"0x{info.pci_device:08X}")),
    Field(("pci.sub_device_id",), _pci(lambda info: f"0x{info.pci_subsystem:08X}")),
    Field(("pcie.link.gen.current", "pcie.link.gen.gpucurrent"), _number("CurrPcieLinkGeneration")),
    Field(("pcie.link.gen.max",), _number("MaxPcieLinkGeneration")),
    Field(("pcie.link.width.current",), _number("CurrPcieLinkWidth")),
    Field(("pcie.link.width.max",), _number("MaxPcieLinkWidth")),
    Field(("fan.speed",), lambda *_: None, "%"),
    Field(("pstate",), _number("PerformanceState", words="P{}")),
    Field(("memory.total",), _memory("total"), "MiB"),
    Field(("memory.used",), _memory("used"), "MiB"),
    Field(("memory.free",), _memory("free"), "MiB"),
    Field(("utilization.gpu",), _utilization, "%"),
    Field(("temperature.gpu",), _number("Temperature", 0)),
    Field(("power.draw", "power.draw.instant"), _watts("PowerUsage"), "W"),
    Field(("power.limit",), _watts("PowerManagementLimit"), "W"),
    Field(("enforced.power.limit",), _watts("EnforcedPowerLimit"), "W"),
    Field(("power.default_limit",), _watts("PowerManagementDefaultLimit"), "W"),
    Field(("clocks.sm", "clocks.current.sm"), _number("ClockInfo", 1), "MHz"),
    Field(("clocks.mem", "clocks.current.memory"), _number("ClockInfo", 2), "MHz"),
    Field(("clocks.max.sm",), _number("MaxClockInfo", 1), "MHz"),
    Field(("clocks.max.mem", "clocks.max.memory"), _number("MaxClockInfo", 2), "MHz"),
    Field(("ecc.mode.current",), _one_of("EccMode", 2, 0, ON_OFF)),
    Field(("ecc.mode.pending",), _one_of("EccMode", 2, 1, ON_OFF)),
    Field(("ecc.errors.corrected.volatile.total",), _ecc(0, 0)),
    Field(("ecc.errors.uncorrected.volatile.total",), _ecc(1, 0)),
    Field(("ecc.errors.corrected.aggregate.total",), _ecc(0, 1)),
    Field(("ecc.errors.uncorrected.aggregate.total",), _ecc(1, 1)),
    Field(("mig.mode.current",), _one_of("MigMode", 2, 0, ON_OFF)),
    Field(("mig.mode.pending",), _one_of("MigMode", 2, 1, ON_OFF)),
    Field(("remapped_rows.correctable",), _one_of("RemappedRows", 4, 0)),
    Field(("remapped_rows.uncorrectable",), _one_of("RemappedRows", 4, 1)),
    Field(("remapped_rows.pending",), _one_of("RemappedRows", 4, 2, YES_NO)),
    Field(("remapped_rows.failure",), _one_of("RemappedRows", 4, 3, YES_NO)),
    Field(tuple(f"{prefix}.active" for prefix in EVENTS), _active),
    *(
        Field(tuple(f"{prefix}.{name}" for prefix in EVENTS), _reason(bit))
        for name, bit in REASONS.items()
    ),
)
BY_NAME = {name: field for field in FIELDS for name in field.names}


def value(library: Library, gpu: Any, name: str, *, unit: bool = True) -> str:
    """A field of a GPU in nvidia-smi's notation. Raises Failure if the GPU is lost."""
    field = BY_NAME[name]
    said = field.read(library, gpu)
    if said is None:
        return NOT_KNOWN
    return f"{said} {field.unit}" if unit and field.unit else said
