"""RDMA ports from sysfs, lossless settings of Ethernet ports, and the subnet manager by a MAD query."""

from __future__ import annotations

import re

from appliance.probe import files
from appliance.probe.ask import Ask
from appliance.probe.problems import UNANSWERED, Absent, Unreadable
from appliance.stages.gpu.collect.gpus import pci_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from appliance.probe.ask import Facts

INFINIBAND = "/class/infiniband"
ROCE_UNIT = "/etc/systemd/system/appliance-roce.service"
"""Unit that exists if stage fabric configured lossless Ethernet; otherwise nothing is read, to save time."""
SILENCE = "madrpc failed"
"""libibmad's message for a query without an answer; other messages are errors of sminfo."""
SMINFO = re.compile(
    r"sm lid \d+ sm guid (0x[0-9a-f]+).*?priority (\d+) state \d+ SMINFO_(\w+)", re.S
)


def collect(ask: Ask) -> Facts:
    """The areas ``ports`` and ``subnet_manager``; the latter only if an InfiniBand port is up."""
    found = ports(ask)
    up = any(port["link_layer"] == "InfiniBand" and port["physical"] == "LinkUp" for port in found)
    return {"ports": found, "subnet_manager": _subnet_manager(ask) if up else None}


def ports(ask: Ask) -> list[Facts]:
    """Return every port of every RDMA device."""
    top = ask.sys + INFINIBAND
    found = [
        _port(f"{top}/{device}/", device, port)
        for device in files.names(top)
        for port in files.names(f"{top}/{device}/ports")
    ]
    if files.exists(ask.path(ROCE_UNIT)):
        for port in found:
            if port["link_layer"] == "Ethernet":
                port["roce"] = _roce(ask, f"{top}/{port['device']}/", port["device"], port["port"])
    return found


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
        "guid": guid(files.text(at + "gids/0")),
        "firmware": files.text(device_at + "fw_ver"),
        "board": files.text(device_at + "board_id"),
        "numa_node": None if numa is None or numa < 0 else numa,
        "pci_path": pci_path(device_at + "device"),
        "pkeys": _pkeys(at + "pkeys"),
        **_pcie(device_at + "device/"),
        "counters": {**_counters(at + "hw_counters/"), **_counters(at + "counters/")},
    }


def _pcie(at: str) -> Facts:
    """Return current and maximum width and speed (GT/s) of the adapter's PCIe link; None if the kernel does not report them."""
    found: Facts = {}
    for key, name in (("pcie", "current"), ("pcie_max", "max")):
        width = files.number(f"{at}{name}_link_width")
        found[key + "_width"] = width if width and width > 0 else None
        found[key + "_speed"] = rate(files.text(f"{at}{name}_link_speed")) or None
    return found


def _roce(ask: Ask, device_at: str, device: str, port: int) -> Facts | None:
    """Return lossless settings; none if the port has no network interface."""
    interfaces = files.names(device_at + "device/net")
    if not interfaces:
        return None
    at = f"{device_at}device/net/{interfaces[0]}/"
    manager = f"{ask.sys}/kernel/config/rdma_cm/{device}/ports/{port}/default_roce_tos"
    said = files.text(f"{device_at}tc/{port}/traffic_class")
    number = re.search(r"(\d+)\s*$", said)
    return {
        "interface": interfaces[0],
        "mtu": files.number(at + "mtu"),
        "pfc": _dcb(ask, paused, ["dcb", "pfc", "show", "dev", interfaces[0], "prio-pfc"]),
        "dscp": _dcb(
            ask, marked, ["dcb", "--json", "app", "show", "dev", interfaces[0], "dscp-prio"]
        ),
        "tos": files.number(manager),
        "traffic_class": int(number.group(1)) if number else None,
        "ecn": _ecn(at + "ecn/"),
    }


def _dcb(ask: Ask, read: Callable[[str], Any], argv: list[str]) -> Any:
    try:
        return read(ask.run(argv, 5.0))
    except Unreadable as error:
        ask.problem("fabric", error)
        return None


def paused(said: str) -> list[int]:
    """Return enabled priorities of "prio-pfc 0:off 1:off 2:off 3:on". Raises Unreadable."""
    found = re.findall(r"\b([0-7]):(on|off)\b", said)
    if not found:
        raise Unreadable(f"dcb pfc: unexpected answer: {said.strip()[:80]}")
    return [int(priority) for priority, state in found if state == "on"]


def marked(said: str) -> dict[str, int]:
    """Return priority by DSCP of {"dscp_prio":[[26,3]]}; without entries, dcb prints nothing or {}. Raises Unreadable."""
    import json

    try:
        known = json.loads(said or "{}").get("dscp_prio", [])
        return {str(int(dscp)): int(priority) for dscp, priority in known}
    except (AttributeError, TypeError, ValueError):
        raise Unreadable(f"dcb app: unexpected answer: {said.strip()[:80]}") from None


def _ecn(at: str) -> list[int] | None:
    """Return priorities with ECN as notification point (np) and reaction point (rp)."""
    halves = [
        {int(name): files.number(f"{at}{half}/enable/{name}") for name in _priorities(at, half)}
        for half in ("roce_np", "roce_rp")
    ]
    if not all(halves):
        return None
    return sorted(number for number in halves[0] if all(half.get(number) for half in halves))


def _priorities(at: str, half: str) -> list[str]:
    return [name for name in files.names(f"{at}{half}/enable") if name.isdigit()]


def _word(state: str) -> str:
    """ "4: ACTIVE" is ACTIVE."""
    return state.partition(":")[2].strip() or state


def rate(text: str) -> float:
    """Return Gb/s of "200 Gb/sec (4X HDR)"; 0 if the kernel reports none."""
    words = text.split()
    try:
        return float(words[0]) if words else 0.0
    except ValueError:
        return 0.0


def guid(gid: str) -> str:
    """Return the port's GUID, the lower half of its first GID, as 0x and 16 digits."""
    half = "".join(gid.split(":")[4:])
    return "0x" + half if len(half) == 16 else ""


def _pkeys(at: str) -> list[int] | None:
    """Return the keys of the table; the single one of an Ethernet port has no meaning."""
    found = [files.number(f"{at}/{name}") for name in files.names(at)]
    return sorted({key for key in found if key}) if found else None


def _counters(at: str) -> dict[str, int]:
    """Return counters with a number; the kernel writes "N/A (no PMA)" for missing ones."""
    values = ((name, files.number(at + name)) for name in files.names(at) if name != "lifespan")
    return {name: value for name, value in values if value is not None}


def _subnet_manager(ask: Ask) -> Facts | None:
    try:
        return sminfo(_ask_twice(ask))
    except Absent:
        return None
    except Unreadable as error:
        ask.problem("fabric", error, UNANSWERED if SILENCE in str(error) else "")
        return None


def _ask_twice(ask: Ask) -> str:
    """Query twice, because a busy subnet manager sometimes does not answer."""
    try:
        return ask.run(["sminfo"], 5.0)
    except Absent:
        raise
    except Unreadable:
        return ask.run(["sminfo"], 5.0)


def sminfo(said: str) -> Facts:
    """Return state ("MASTER"), GUID and priority of the master. Raises Unreadable."""
    found = SMINFO.search(said)
    if found is None:
        raise Unreadable(f"sminfo: unexpected answer: {said.strip()[:80]}")
    return {
        "guid": f"0x{int(found.group(1), 16):016x}",
        "priority": int(found.group(2)),
        "state": found.group(3),
    }
