"""PCIe errors (AER) that the kernel counted since a device appeared: GPUs, adapters, NVMe drives, and the bridges above."""

from __future__ import annotations

import re

from appliance.probe import files
from appliance.probe.ask import Ask
from appliance.probe.collectors.edac import borrowed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from appliance.probe.ask import Facts

PCI = "/bus/pci/devices"
NVIDIA = "0x10de"
DISPLAY = ("0x0300", "0x0302")
CLASSES = ("infiniband", "nvme")
"""Classes of devices, whose names in sysfs identify the devices."""
COUNTERS = ("fatal", "nonfatal", "correctable")
ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")


def collect(ask: Ask) -> Facts:
    """The area ``aer``. Often only the bridge at the other end of a link counts an error."""
    if borrowed(ask):
        return {"pcie_errors": None}
    watched = _watched(ask)
    counts: dict[str, dict[str, int]] = {}
    owners: dict[str, str] = {}
    for at, name in watched.items():
        parts = at.split("/")
        chain = [n for n, part in enumerate(parts) if ADDRESS.fullmatch(part)]
        for n in chain:
            address = parts[n]
            if address not in counts:
                counts[address] = _counts("/".join(parts[: n + 1]) + "/")
            is_own = n == chain[-1]
            if is_own or address not in owners:
                owners[address] = name if is_own else f"bridge above {name}"
    own = {at.rpartition("/")[2] for at in watched}
    return {
        "pcie_errors": {
            "devices": sum(1 for found in counts.values() if found),
            "uncounted": sorted(a for a in own if not counts.get(a)),
            "errors": [
                {"at": address, "device": owners[address], **found}
                for address, found in sorted(counts.items())
                if found and any(found.values())
            ],
        }
    }


def _watched(ask: Ask) -> dict[str, str]:
    """Names of devices by their path in /sys/devices."""
    found = {}
    for address in files.names(ask.sys + PCI):
        at = f"{ask.sys}{PCI}/{address}"
        if files.text(at + "/class").startswith(DISPLAY) and files.text(at + "/vendor") == NVIDIA:
            found[files.real(at)] = "the GPU"
    for kind in CLASSES:
        for name in files.names(f"{ask.sys}/class/{kind}"):
            at = files.real(f"{ask.sys}/class/{kind}/{name}/device")
            if ADDRESS.fullmatch(at.rpartition("/")[2]):
                found.setdefault(at, name)
    return found


def _counts(at: str) -> dict[str, int]:
    """Return the kernel's totals; nothing if the device has no counters."""
    found: dict[str, int] = {}
    for name in COUNTERS:
        total = _total(files.text(f"{at}aer_dev_{name}"))
        if total is None:
            return {}
        found[name] = total
    return found


def _total(said: str) -> int | None:
    """Of "RxErr 0", ..., "TOTAL_ERR_COR 0"."""
    name, _, number = said.rpartition("\n")[2].partition(" ")
    return int(number) if name.startswith("TOTAL_") and number.isdigit() else None
