"""Settings of processors, memory and PCIe that affect the speed of transfers between GPUs and adapters."""

from __future__ import annotations

import os

from appliance.probe import files, places
from appliance.probe.ask import Ask
from appliance.probe.collectors.aer import ADDRESS, DISPLAY, NVIDIA, PCI
from appliance.probe.collectors.edac import borrowed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from appliance.probe.ask import Facts

MELLANOX, NETWORK = "0x15b3", "0x02"
CPUS = "/sys/devices/system/cpu"
HUGE_PAGES = "/sys/kernel/mm/transparent_hugepage/enabled"
WORDS = ("idle", "intel_idle", "processor", "iommu", "intel_iommu", "amd_iommu", "pci", "cpufreq")
"""Kernel parameters that are reported; others may be secrets."""
FIRST, HEADER = 0x34, 0x40
EXPRESS, ACCESS_CONTROL = 0x10, 0x0D
"""Ids of capabilities, the second an extended one (linux/pci_regs.h)."""
EXTENDED, MOST = 0x100, 64
CONTROL, ACS_CONTROL = 8, 6
RELAXED = 1 << 4
UNKNOWN = "unknown"


def collect(ask: Ask) -> Facts:
    """The area ``tuning``. It describes the machine, so a container reports nothing."""
    if borrowed(ask):
        return {"tuning": None}
    return {
        "tuning": {
            "governors": _governors(ask),
            "huge_pages": chosen(files.text(ask.path(HUGE_PAGES))),
            "idle_latency_us": _idle_latency(ask),
            "command_line": _command_line(ask),
            "gpu_modules": _gpu_modules(ask),
            **_pcie(ask),
        }
    }


def chosen(line: str) -> str:
    """Return the word in brackets of a line such as ``always [madvise] never``."""
    return line.partition("[")[2].partition("]")[0]


def _governors(ask: Ask) -> dict[str, int]:
    """Number of frequency policies by governor: one policy per processor, or per group of them."""
    top = ask.path(CPUS + "/cpufreq")
    names = [name for name in files.names(top) if name.startswith("policy")]
    return _counted(files.text(f"{top}/{name}/scaling_governor") for name in names)


def _counted(values: Iterable[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for value in values:
        found[value or UNKNOWN] = found.get(value or UNKNOWN, 0) + 1
    return found


def _idle_latency(ask: Ask) -> int | None:
    """Longest exit latency in us of an idle state that a processor may enter; None: no states.

    All processors have the states of cpu0. Their limit is 0 if there is none, "n/a" for no latency.
    """
    top = ask.path(CPUS)
    states = [f"{top}/cpu0/cpuidle/{name}" for name in files.names(f"{top}/cpu0/cpuidle")]
    found = [
        files.number(at + "/latency") or 0 for at in states if files.text(at + "/disable") == "0"
    ]
    if not found:
        return None
    cpus = [name for name in files.names(top) if name[:3] == "cpu" and name[3:].isdigit()]
    limits = {files.text(f"{top}/{name}/power/pm_qos_resume_latency_us", "0") for name in cpus}
    return max((_allowed(found, limit) for limit in limits), default=max(found))


def _allowed(latencies: list[int], limit: str) -> int:
    if limit == "0" or not (limit == "n/a" or limit.isdigit()):
        return max(latencies)
    most = int(limit) if limit.isdigit() else 0
    return max((one for one in latencies if one <= most), default=0)


def _command_line(ask: Ask) -> list[str]:
    words = files.text(ask.path("/proc/cmdline")).split()
    return [word for word in words if word.partition("=")[0].partition(".")[0] in WORDS]


def _gpu_modules(ask: Ask) -> str:
    """Return the kind of NVIDIA's kernel modules as they report it; empty if none are loaded."""
    said = files.text(ask.path("/proc/driver/nvidia/version"))
    if not said:
        return ""
    return "open" if "Open Kernel Module" in said.partition("\n")[0] else "proprietary"


def _pcie(ask: Ask) -> Facts:
    """Return settings of GPUs and adapters, devices of a kind with equal settings together; ACS of the bridges above them."""
    found: dict[tuple[object, ...], list[str]] = {}
    bridges: set[str] = set()
    for address in files.names(ask.sys + PCI):
        at = f"{ask.sys}{PCI}/{address}"
        kind = _kind(at)
        # A virtual function has its adapter's settings.
        if kind and files.link(at + "/physfn") is None:
            found.setdefault((kind, *_settings(at)), []).append(address)
            bridges.update(part for part in files.real(at).split("/")[:-1] if _is_address(part))
    controls = {one: access_control(f"{ask.sys}{PCI}/{one}/config") for one in sorted(bridges)}
    return {
        "devices": [
            {"kind": k, "at": at, "iommu": i, "payload": p, "read_request": r, "relaxed": o}
            for (k, i, p, r, o), at in found.items()
        ],
        "bridges": len(controls),
        "bridges_unread": sum(1 for control in controls.values() if control is None),
        "access_control": {one: control for one, control in controls.items() if control},
    }


def _is_address(part: str) -> bool:
    return ADDRESS.fullmatch(part) is not None


def _kind(at: str) -> str:
    kind = files.text(at + "/class")
    if kind.startswith(DISPLAY):
        return "GPU" if files.text(at + "/vendor") == NVIDIA else ""
    if kind.startswith(NETWORK):
        return "adapter" if files.text(at + "/vendor") == MELLANOX else ""
    return ""


def _settings(at: str) -> tuple[str, int | None, int | None, bool | None]:
    """Return IOMMU mode, maximum payload and read request in bytes, and whether relaxed ordering is enabled."""
    iommu = ""
    if files.link(at + "/iommu_group") is not None:
        iommu = files.text(at + "/iommu_group/type", UNKNOWN)
    control = device_control(at + "/config")
    if control is None:
        return iommu, None, None, None
    payload, request = control >> 5 & 7, control >> 12 & 7
    return iommu, 128 << payload, 128 << request, bool(control & RELAXED)


def register(path: str, capability: int, offset: int, *, extended: bool = False) -> int | None:
    """Return a 16-bit register of a capability; 0 if the extended capability is missing, None if not readable.

    An ordinary user sees the first 64 bytes of a configuration space.
    """
    try:
        fd = places.opened(path)
    except OSError:
        return None
    try:
        at = EXTENDED if extended else _number(fd, FIRST, 1) or 0
        for _ in range(MOST):
            head = _number(fd, at, 4) if at >= HEADER else None
            if head is None:
                return None
            if head & (0xFFFF if extended else 0xFF) == capability:
                return _number(fd, at + offset, 2)
            at = head >> 20 & 0xFFC if extended else head >> 8 & 0xFC
            if extended and at < EXTENDED:
                return 0
        return None
    finally:
        os.close(fd)


def _number(fd: int, at: int, size: int) -> int | None:
    found = os.pread(fd, size, at)
    return int.from_bytes(found, "little") if len(found) == size else None


def device_control(path: str) -> int | None:
    """Device Control of a PCI Express device."""
    return register(path, EXPRESS, CONTROL)


def access_control(path: str) -> int | None:
    """ACS Control of a bridge; 0 without ACS."""
    return register(path, ACCESS_CONTROL, ACS_CONTROL, extended=True)
