"""Health and wear of NVMe drives: log page 02h, by the driver's ioctl."""

from __future__ import annotations

import os

from appliance.probe import files
from appliance.probe.ask import Ask
from appliance.probe.collectors.edac import borrowed
from appliance.probe.problems import Unreadable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from appliance.probe.ask import Facts

CLASS = "/class/nvme"
ADMIN_COMMAND = 0xC0484E41
"""NVME_IOCTL_ADMIN_CMD of linux/nvme_ioctl.h."""
COMMAND = "=BBHIIIQQIIIIIIIIII"
"""struct nvme_passthru_cmd: opcode, flags, -, namespace, cdw2-3, metadata, address, two lengths, cdw10-15, timeout, result."""
GET_LOG_PAGE, HEALTH, ALL_NAMESPACES = 0x02, 0x02, 0xFFFFFFFF
SIZE = 512
NOTABLE = 50
"""Percentage of its rated life from which on a drive is reported."""


def collect(ask: Ask) -> Facts:
    """The area ``nvme``. Only drives on the PCI bus; others are judged on their own machine."""
    if borrowed(ask):
        return {"nvme": None}
    top = ask.sys + CLASS
    names = [n for n in files.names(top) if files.text(f"{top}/{n}/transport", "pcie") == "pcie"]
    drives, unasked = [], []
    for name in names:
        try:
            drives.append(_drive(ask, name, files.text(f"{top}/{name}/state", "live")))
        except PermissionError:
            raise
        except (OSError, Unreadable) as error:
            ask.problem("nvme", f"{name}: {getattr(error, 'strerror', None) or error}")
            unasked.append(name)
    return {
        "nvme": {
            "drives": len(names),
            "most_used": max((drive["used"] for drive in drives), default=None),
            "unasked": unasked,
            "notable": [drive for drive in drives if _is_notable(drive)],
        }
    }


def _drive(ask: Ask, name: str, state: str) -> Facts:
    """Read one drive. A dead controller is a finding; one in a reset is skipped, because it would block."""
    if state == "dead":
        return {"name": name, "dead": True, "used": 0}
    if state != "live":
        raise Unreadable(f"its controller is {state}")
    return {"name": name, **health(page(ask, name))}


def page(ask: Ask, name: str) -> bytes:
    """Log page 02h of a drive. Raises OSError or Unreadable."""
    if ask.nvme:
        return files.data(ask.path(f"{ask.nvme}/{name}"), SIZE)
    fd = os.open(ask.path("/dev/" + name), os.O_RDONLY | os.O_CLOEXEC)
    try:
        return _asked(fd)
    finally:
        os.close(fd)


def _asked(fd: int) -> bytes:
    """Send the command without a timeout of its own: the kernel resets a drive that exceeds one."""
    import array
    import fcntl
    import struct

    answer = array.array("B", bytes(SIZE))
    address, _ = answer.buffer_info()
    which = (SIZE // 4 - 1) << 16 | HEALTH
    words = (GET_LOG_PAGE, 0, 0, ALL_NAMESPACES, 0, 0, 0, address, 0, SIZE, which)
    command = bytearray(struct.pack(COMMAND, *words, *[0] * 7))
    status = fcntl.ioctl(fd, ADMIN_COMMAND, command)
    if status:
        raise Unreadable(f"it returns no health page, status {status:#x}")
    return answer.tobytes()


def health(said: bytes) -> Facts:
    """Raises Unreadable: a page of zeros means that the drive or bridge does not support it."""
    if len(said) != SIZE or not any(said):
        raise Unreadable("its health page is empty")
    return {
        "warning": said[0],
        "spare": said[3],
        "spare_least": said[4],
        "used": said[5],
        "media_errors": min(int.from_bytes(said[160:176], "little"), 2**62),
    }


def _is_notable(drive: Facts) -> bool:
    return bool(
        drive.get("dead")
        or drive["warning"]
        or drive["media_errors"]
        or drive["used"] >= NOTABLE
        or drive["spare"] < drive["spare_least"]
    )
