"""RDMA ports from sysfs, and the subnet manager as one MAD finds it."""

from __future__ import annotations

import re

from appliance.probe import files
from appliance.probe.ask import Absent, Ask, Unreadable
from appliance.probe.collectors.gpus import pci_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from appliance.probe.ask import Facts

INFINIBAND = "/class/infiniband"
SMINFO = re.compile(
    r"sm lid \d+ sm guid (0x[0-9a-f]+).*?priority (\d+) state \d+ SMINFO_(\w+)", re.S
)


def collect(ask: Ask) -> Facts:
    """The areas ``ports`` and ``subnet_manager``; the latter only where an InfiniBand port is up."""
    found = ports(ask)
    up = any(port["link_layer"] == "InfiniBand" and port["physical"] == "LinkUp" for port in found)
    return {"ports": found, "subnet_manager": _subnet_manager(ask) if up else None}


def ports(ask: Ask) -> list[Facts]:
    """Every port of every RDMA device."""
    top = ask.sys + INFINIBAND
    return [
        _port(f"{top}/{device}/", device, port)
        for device in files.names(top)
        for port in files.names(f"{top}/{device}/ports")
    ]


def _port(device_at: str, device: str, port: str) -> Facts:
    at = f"{device_at}ports/{port}/"
    numa = files.number(device_at + "device/numa_node")
    return {
        "device": device,
        "port": int(port),
        "state": _word(files.text(at + "state")),
        "physical": _word(files.text(at + "phys_state")),
        "rate": rate(files.text(at + "rate")),
        "link_layer": files.text(at + "link_layer"),
        "lid": files.number(at + "lid"),
        "sm_lid": files.number(at + "sm_lid"),
        "guid": guid(files.text(at + "gids/0")),
        "firmware": files.text(device_at + "fw_ver"),
        "board": files.text(device_at + "board_id"),
        "numa_node": None if numa is None or numa < 0 else numa,
        "pci_path": pci_path(device_at + "device"),
        "pkeys": _pkeys(at + "pkeys"),
        "counters": {**_counters(at + "hw_counters/"), **_counters(at + "counters/")},
    }


def _word(state: str) -> str:
    """ "4: ACTIVE" is ACTIVE."""
    return state.partition(":")[2].strip() or state


def rate(text: str) -> float:
    """Gb/s of "200 Gb/sec (4X HDR)"; 0 where the kernel says nothing."""
    words = text.split()
    try:
        return float(words[0]) if words else 0.0
    except ValueError:
        return 0.0


def guid(gid: str) -> str:
    """The port's GUID, the lower half of its first GID, as 0x and 16 digits."""
    half = "".join(gid.split(":")[4:])
    return "0x" + half if len(half) == 16 else ""


def _pkeys(at: str) -> list[int] | None:
    """The table's entries that hold a key; an Ethernet port has one that means nothing."""
    found = [files.number(f"{at}/{name}") for name in files.names(at)]
    return sorted({key for key in found if key}) if found else None


def _counters(at: str) -> dict[str, int]:
    """Those that hold a number; the kernel writes "N/A (no PMA)" where a device has none."""
    values = ((name, files.number(at + name)) for name in files.names(at) if name != "lifespan")
    return {name: value for name, value in values if value is not None}


def _subnet_manager(ask: Ask) -> Facts | None:
    try:
        return sminfo(ask.run(["sminfo"], 5.0))
    except Absent:
        return None
    except Unreadable as error:
        ask.problem("fabric", str(error))
        return None


def sminfo(said: str) -> Facts:
    """State ("MASTER"), GUID and priority of the master. Raises Unreadable."""
    found = SMINFO.search(said)
    if found is None:
        raise Unreadable(f"sminfo: unexpected answer: {said.strip()[:80]}")
    return {
        "guid": f"0x{int(found.group(1), 16):016x}",
        "priority": int(found.group(2)),
        "state": found.group(3),
    }
