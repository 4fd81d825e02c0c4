"""Whole block devices."""

from __future__ import annotations

from appliance.probe import files
from appliance.probe.ask import Ask

TYPE_CHECKING = False
if TYPE_CHECKING:
    from appliance.probe.ask import Facts

BLOCK = "/sys/block"
SECTOR = 512
"""Bytes; the unit of /sys/block/*/size, independent of the device's sector size."""
BUSES = (
    ("/usb", "usb"),
    ("/virtio", "virtio"),
    ("/nvme", "nvme"),
    ("/end_device-", "sas"),
    ("/ata", "sata"),
    ("/mmc", "mmc"),
)


def collect(ask: Ask) -> Facts:
    """The area ``disks``. Loop, RAM, mapped and md devices have no ``device`` and are left out."""
    disks = []
    for name in files.names(ask.path(BLOCK)):
        at = ask.path(f"{BLOCK}/{name}/")
        size = (files.number(at + "size") or 0) * SECTOR
        if size and not name.startswith("sr") and files.exists(at + "device"):
            disks.append(_disk(name, at, size))
    return {"disks": disks}


def _disk(name: str, at: str, size: int) -> dict[str, object]:
    return {
        "name": name,
        "size": size,
        "model": " ".join(files.text(at + "device/model").split()),
        "serial": _serial(at),
        "transport": transport(files.real(at + "device") + "/"),
    }


def _serial(at: str) -> str:
    """NVMe and virtio provide it as text, SCSI in its vital product data page 0x80 (4 bytes of header)."""
    said = files.text(at + "device/serial") or files.text(at + "serial")
    if not said:
        try:
            said = files.data(at + "device/vpd_pg80")[4:].decode("ascii", "replace")
        except OSError:
            return ""
    return said.strip(" \0")


def transport(device: str) -> str:
    """Return how a device is attached, from its place in sysfs."""
    return next((bus for mark, bus in BUSES if mark in device), "")
