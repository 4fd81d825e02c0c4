"""NVML queries of each GPU: one function per fact, None if the GPU or driver does not support it."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from appliance.probe.nvml import Library

    Getter = Callable[[Library, Any], object]

MOST_LINKS = 18
"""Maximum number of NVLinks of a GPU (NVML_NVLINK_MAX_LINKS)."""
COMMON_SPEED, LINK_SPEED = 90, 164
"""NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON, and NVML_FI_DEV_NVLINK_GET_SPEED of one link: MB/s."""
SM, MEMORY = 1, 2
"""NVML_CLOCK_SM and NVML_CLOCK_MEM."""
SRAM = 7
"""NVML_MEMORY_LOCATION_SRAM."""


def _text(name: str) -> Getter:
    return lambda library, device: library.text(name, device)


def _number(name: str) -> Getter:
    return lambda library, device: library.number(name, device)


def _current(name: str, place: int = 0) -> Getter:
    """Return the current value of a pair "current, pending" as a boolean."""

    def get(library: Library, device: Any) -> object:
        pair = library.numbers(name, 2, device)
        return None if pair is None else pair[place] == 1

    return get


def _mig(library: Library, device: Any) -> object:
    """Return MIG facts; without MIG, nothing is imported, because that would cost more than all other queries."""
    pair = library.numbers("nvmlDeviceGetMigMode", 2, device)
    if pair is None:
        return None
    if not pair[0]:
        return []
    from appliance.probe.mig import facts

    return facts(library, device)


def _remapped(place: int) -> Getter:
    """Return a field of row remapping: 2 is a pending remap, 3 a failed one."""

    def get(library: Library, device: Any) -> object:
        said = library.numbers("nvmlDeviceGetRemappedRows", 4, device)
        return None if said is None else said[place] != 0

    return get


def _remapped_rows(library: Library, device: Any) -> object:
    """Return the number of rows remapped for uncorrectable errors."""
    said = library.numbers("nvmlDeviceGetRemappedRows", 4, device)
    return None if said is None else said[1]


def _clock(name: str, kind: int) -> Getter:
    def get(library: Library, device: Any) -> object:
        from appliance.probe.nvml import UINT

        return library.number(name, device, UINT(kind))

    return get


def _bus_id(library: Library, device: Any) -> object:
    import ctypes

    from appliance.probe.nvml import PciInfo

    info = PciInfo()
    known = library.works("nvmlDeviceGetPciInfo_v3", device, ctypes.byref(info))
    return info.bus_id.decode() if known else None


def _memory(field: str) -> Getter:
    """Return bytes: total, or used including the driver's reserve."""

    def get(library: Library, device: Any) -> object:
        import ctypes

        from appliance.probe.nvml import Memory

        memory = Memory()
        known = library.works("nvmlDeviceGetMemoryInfo", device, ctypes.byref(memory))
        return int(getattr(memory, field)) if known else None

    return get


def _watts(name: str) -> Getter:
    def get(library: Library, device: Any) -> object:
        milliwatts = library.number(name, device)
        return None if milliwatts is None else milliwatts / 1000

    return get


def _power_range(place: int) -> Getter:
    """Return a bound of the power limit in W: 0 minimum, 1 maximum."""

    def get(library: Library, device: Any) -> object:
        said = library.numbers("nvmlDeviceGetPowerManagementLimitConstraints", 2, device)
        return None if said is None else said[place] / 1000

    return get


def _uncorrected(counter: int) -> Getter:
    """Return uncorrectable errors: counter 0 since the driver was loaded, 1 over the GPU's lifetime."""

    def get(library: Library, device: Any) -> object:
        from appliance.probe.nvml import UINT, ULONG

        before = (device, UINT(1), UINT(counter))
        return library.number("nvmlDeviceGetTotalEccErrors", *before, type=ULONG)

    return get


def _sram_uncorrected(library: Library, device: Any) -> object:
    from appliance.probe.nvml import UINT, ULONG

    before = (device, UINT(1), UINT(1), UINT(SRAM))
    return library.number("nvmlDeviceGetMemoryErrorCounter", *before, type=ULONG)


def _sram_exceeded(library: Library, device: Any) -> object:
    """Return whether SRAM errors exceed the driver's threshold; unknown before driver 550."""
    import ctypes

    from appliance.probe.nvml import SramErrors, versioned

    said = versioned(SramErrors())
    known = library.works("nvmlDeviceGetSramEccErrorStatus", device, ctypes.byref(said))
    return said.exceeded != 0 if known else None


def _temperature(library: Library, device: Any) -> object:
    from appliance.probe.nvml import UINT

    return library.number("nvmlDeviceGetTemperature", device, UINT(0))


def _slowdown(library: Library, device: Any) -> object:
    from appliance.probe.nvml import UINT

    return library.number("nvmlDeviceGetTemperatureThreshold", device, UINT(1))


def _margin(library: Library, device: Any) -> object:
    import ctypes

    from appliance.probe.nvml import Margin, versioned

    said = versioned(Margin())
    known = library.works("nvmlDeviceGetMarginTemperature", device, ctypes.byref(said))
    return said.margin if known else None


def _utilization(library: Library, device: Any) -> object:
    import ctypes

    from appliance.probe.nvml import Utilization

    said = Utilization()
    known = library.works("nvmlDeviceGetUtilizationRates", device, ctypes.byref(said))
    return said.gpu if known else None


def _persistence(library: Library, device: Any) -> object:
    mode = library.number("nvmlDeviceGetPersistenceMode", device)
    return None if mode is None else mode == 1


def _link_speed(library: Library, device: Any) -> object:
    """Return MB/s of each link; driver and GPU decide which of the two fields answers."""
    import ctypes

    from appliance.probe.nvml import SUCCESS, FieldValue

    for field in (COMMON_SPEED, LINK_SPEED):
        said = FieldValue(field=field)
        known = library.works("nvmlDeviceGetFieldValues", device, 1, ctypes.byref(said))
        # The union holds 32 bits for these two fields.
        if known and said.code == SUCCESS and said.value & 0xFFFFFFFF:
            return int(said.value & 0xFFFFFFFF)
    return None


def _nvlinks(library: Library, device: Any) -> object:
    from appliance.probe.nvml import UINT

    states = (
        library.number("nvmlDeviceGetNvLinkState", device, UINT(n)) for n in range(MOST_LINKS)
    )
    known = [state for state in states if state is not None]
    return sum(known) if known else None


def _reasons(library: Library, device: Any) -> object:
    """Return clock event reasons; the function has another name before driver 535."""
    from appliance.probe.nvml import ULONG

    for name in ("Event", "Throttle"):
        said = library.number(f"nvmlDeviceGetCurrentClocks{name}Reasons", device, type=ULONG)
        if said is not None:
            return said
    return None


def _processes(library: Library, device: Any) -> object:
    """Return the number of processes: without a buffer, NVML returns only the count."""
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
    "minor": _number("nvmlDeviceGetMinorNumber"),
    "memory": _memory("total"),
    "memory_used": _memory("used"),
    "pcie_generation": _number("nvmlDeviceGetCurrPcieLinkGeneration"),
    "pcie_width": _number("nvmlDeviceGetCurrPcieLinkWidth"),
    "pcie_max_generation": _number("nvmlDeviceGetMaxPcieLinkGeneration"),
    "pcie_max_width": _number("nvmlDeviceGetMaxPcieLinkWidth"),
    "pcie_gpu_generation": _number("nvmlDeviceGetGpuMaxPcieLinkGeneration"),
    "pcie_replays": _number("nvmlDeviceGetPcieReplayCounter"),
    "temperature": _temperature,
    "temperature_slowdown": _slowdown,
    "temperature_margin": _margin,
    "power_limit": _watts("nvmlDeviceGetPowerManagementLimit"),
    "power_default": _watts("nvmlDeviceGetPowerManagementDefaultLimit"),
    "power_least": _power_range(0),
    "power_most": _power_range(1),
    "power": _watts("nvmlDeviceGetPowerUsage"),
    "sm_clock": _clock("nvmlDeviceGetClockInfo", SM),
    "memory_clock": _clock("nvmlDeviceGetClockInfo", MEMORY),
    "utilization": _utilization,
    "ecc_enabled": _current("nvmlDeviceGetEccMode"),
    "ecc_uncorrected": _uncorrected(0),
    "ecc_uncorrected_aggregate": _uncorrected(1),
    "sram_uncorrected": _sram_uncorrected,
    "sram_exceeded": _sram_exceeded,
    "remap_pending": _remapped(2),
    "remap_failed": _remapped(3),
    "remapped_rows": _remapped_rows,
    "mig_enabled": _current("nvmlDeviceGetMigMode"),
    "mig_pending": _current("nvmlDeviceGetMigMode", 1),
    "mig": _mig,
    "nvlinks_active": _nvlinks,
    "nvlink_speed": _link_speed,
    "persistence": _persistence,
    "clock_event_reasons": _reasons,
    "processes": _processes,
}
