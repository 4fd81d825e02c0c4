"""NVIDIA GPUs: facts of NVML, GPUs on the PCI bus, and the fabric manager's version."""

from __future__ import annotations

import os
import re

from appliance.probe import files
from appliance.probe.ask import Ask
from appliance.probe.problems import Absent, Unreadable
from appliance.stages.gpu.collect.getters import GETTERS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from appliance.probe.ask import Facts
    from appliance.probe.nvml import Library

VERSION = re.compile(r"\d+(\.\d+){1,2}")
PCI = "/bus/pci/devices"
NVIDIA = "0x10de"
DISPLAY = ("0x0300", "0x0302")
"""PCI classes of VGA and 3D controllers; NVSwitches (0x0680) and audio functions have others."""


def collect(ask: Ask) -> Facts:
    """The area ``gpus``."""
    on_bus = pci_gpus(ask)
    return {
        "pci_gpus": len(on_bus),
        "pci_gpu_ids": on_bus,
        "gpus": _driver(ask, len(on_bus)),
        "fabric_manager": _fabric_manager(ask),
    }


def pci_gpus(ask: Ask) -> list[str]:
    """Return addresses of the NVIDIA GPUs on the PCI bus."""
    return [name for name in files.names(ask.sys + PCI) if _is_gpu(f"{ask.sys}{PCI}/{name}/")]


def _is_gpu(at: str) -> bool:
    return files.text(at + "vendor") == NVIDIA and files.text(at + "class").startswith(DISPLAY)


def _fabric_manager(ask: Ask) -> str | None:
    """Return the version that the daemon's program prints: "" if it is not installed, None if unknown."""
    try:
        said = ask.run(["nv-fabricmanager", "--version"])
    except Absent:
        return ""
    except Unreadable as error:
        ask.problem("fabric_manager", error)
        return None
    found = VERSION.search(said)
    return found.group() if found else None


def _driver(ask: Ask, on_bus: int) -> Facts | None:
    """Return all devices. A missing library is reported only if there are GPUs."""
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
    except (Failure, Unreadable) as error:
        ask.problem("gpus", error)
        return None
    try:
        return {**said, "devices": [_device(ask, library, index) for index in range(count)]}
    finally:
        library.close()


def cuda(version: int | None) -> str:
    """12040 is 12.4."""
    return f"{version // 1000}.{version % 1000 // 10}" if version else ""


def _device(ask: Ask, library: Library, index: int) -> Facts:
    """Return one GPU; the first failed call is its ``error``, and failed values stay unknown."""
    from appliance.probe.nvml import UNTOLD, Failure

    gpu: Facts = {"index": index, "uuid": "", "name": "", "bus_id": "", "memory": 0}
    try:
        device = library.handle(index)
    except Failure as error:
        return {**gpu, "error": str(error)}
    for field, getter in GETTERS.items():
        try:
            value = getter(library, device)
        except Failure as error:
            if error.code not in UNTOLD:
                gpu.setdefault("error", str(error))
            continue
        if value is not None:
            gpu[field] = value
    at = f"{ask.sys}{PCI}/{gpu['bus_id'][-12:].lower()}"
    return {**gpu, "numa_node": _numa(at), "pci_path": pci_path(at)} if gpu["bus_id"] else gpu


def pci_path(at: str) -> list[str]:
    """Return the bridges above a PCI device, from the root down, by its path in /sys/devices."""
    real = os.path.realpath(at)
    below = real.partition("/devices/pci")[2].split("/")
    return [f"pci{below[0]}", *below[1:-1]] if len(below) > 1 else []


def _numa(at: str) -> int | None:
    """Return the NUMA node; NVML writes the PCI domain with eight digits and in capitals, sysfs with four."""
    node = files.number(f"{at}/numa_node")
    return None if node is None or node < 0 else node
