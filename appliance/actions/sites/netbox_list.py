"""Machines and cables from NetBox: devices with a role of a host, their addresses, BMCs, racks and fabric cables.

Names of fields follow NetBox's REST interface, 4.0 and newer.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit, urlunsplit

from appliance.actions.sites.machine_list import MachineList, Row, listed
from appliance.adapters.netbox import Item, NetBox, is_private
from appliance.errors import ConfigError
from appliance.models.site import Role
from appliance.models.url import VISIBLE, server_in
from appliance.text import one_line

FILTERS = ("site", "location", "rack", "tenant", "cluster", "role", "tag", "status")
"""Filters of devices that an address may contain. NetBox ignores unknown ones, and would return every device."""
CLASS_FIELD = "appliance_class"
"""A custom field of devices: the hardware class."""
BATCH = 50
"""Devices of one request: longer addresses are refused by web servers."""


@dataclass
class _Device:
    """A device, and what was read about its ports."""

    item: Item
    row: dict[str, str]
    cables: list[dict[str, str]] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.row["name"]


def address_of(text: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Address and filters of ``https://HOST/?site=hall-1``. Raises ConfigError."""
    at = urlsplit(text)
    plain = urlunsplit((at.scheme, at.netloc, at.path, "", ""))
    remedy = "write it as https://netbox.example.org/?site=hall-1"
    if not VISIBLE.fullmatch(text) or server_in(plain) is None or at.username or at.fragment:
        raise ConfigError(f"{one_line(text)} is not the address of a NetBox", remedy)
    if not is_private(plain):
        raise ConfigError("the token would be sent without encryption", remedy)
    filters = tuple(parse_qsl(at.query, keep_blank_values=True))
    for name, value in filters:
        if name not in FILTERS or not value:
            raise ConfigError(
                f"{one_line(name)}={one_line(value)} is not a filter",
                f"filters are {', '.join(FILTERS)}",
            )
    return plain.rstrip("/").removesuffix("/api"), filters


def read(address: str, token: str, authority: Path | None = None) -> MachineList:
    """The machines and cables at this address. Raises ConfigError, InvalidConfig, ConnectionFailed."""
    plain, filters = address_of(address)
    netbox = NetBox(plain, token, authority)
    left_out: list[str] = []
    source = Path(urlsplit(plain).netloc)
    devices: dict[int, _Device] = {}
    for item in netbox.all("dcim/devices", filters):
        if found := _device(item, left_out):
            devices[_number(item, "id")] = found
    for batch in _batches(list(devices)):
        query = [("device_id", str(one)) for one in batch]
        ports = list(netbox.all("dcim/interfaces", query))
        _take_addresses(devices, ports, list(netbox.all("ipam/ip-addresses", query)))
        _take_cables(devices, ports, left_out)
    rows = [Row(source, 0, one.row, one.name) for one in devices.values()]
    cables = [
        Row(source, 0, cable, f"{one.name} {cable['hca']}")
        for one in devices.values()
        for cable in one.cables
    ]
    return listed(source, rows, cables, left_out)


def _device(item: Item, left_out: list[str]) -> _Device | None:
    name = _text(item, "name").lower().partition(".")[0]
    slug = _text(item, "role", "slug")
    tags = {_text(tag, "slug") for tag in _items(item, "tags")}
    words = {*re.split("[-_]", slug), *tags}
    roles = [role for role in Role if role in words]
    if not roles:
        if slug not in {"", *_SILENT}:
            left_out.append(
                f"not imported, because its role is {slug}: {name or _text(item, 'display')}"
            )
        return None
    row = {
        "name": name,
        "roles": " ".join(roles),
        "address": _text(item, "primary_ip4", "address"),
        "class": _text(item, "custom_fields", CLASS_FIELD),
        "bmc": _text(item, "oob_ip", "address"),
        "rack": _text(item, "rack", "name"),
        "serial": _text(item, "serial"),
        "unit": _unit(item.get("position")),
    }
    return _Device(item, row)


_SILENT = ("leaf", "spine", "switch", "leaf-switch", "spine-switch", "patch-panel", "pdu")
"""Roles of devices that are expected to be no hosts."""


def _unit(position: object) -> str:
    """NetBox counts in halves of a unit; the lowest whole one is meant."""
    return str(int(position)) if isinstance(position, int | float) and position >= 1 else ""


def _take_addresses(
    devices: Mapping[int, _Device], ports: Sequence[Item], addresses: Sequence[Item]
) -> None:
    """The MAC address of the port with the primary address; the BMC is the address of a port for management only."""
    by_id = {_number(port, "id"): port for port in ports}
    for address in addresses:
        port = by_id.get(_number(address, "assigned_object_id"))
        if _text(address, "assigned_object_type") != "dcim.interface" or port is None:
            continue
        device = devices.get(_number(port, "device", "id"))
        if device is None:
            continue
        if _number(address, "id") == _number(device.item, "primary_ip4", "id"):
            device.row["mac"] = _text(port, "mac_address")
        elif port.get("mgmt_only") is True and not device.row["bmc"] and _is_version_4(address):
            device.row["bmc"] = _text(address, "address")


def _is_version_4(address: Item) -> bool:
    return ":" not in _text(address, "address")


def _take_cables(
    devices: Mapping[int, _Device], ports: Sequence[Item], left_out: list[str]
) -> None:
    for port in ports:
        device = devices.get(_number(port, "device", "id"))
        name = _text(port, "name")
        is_fabric = _text(port, "type", "value").startswith("infiniband") or name.startswith("mlx5")
        if device is None or not is_fabric or Role.GPU not in device.row["roles"].split():
            continue
        ends = _items(port, "connected_endpoints")
        far = ends[0] if len(ends) == 1 else {}
        number = _port_number(_text(far, "name"))
        if far and number:
            switch = _text(far, "device", "name")
            device.cables.append(
                {"host": device.name, "hca": name, "switch": switch, "port": number}
            )
        elif far:
            told = f"{_text(far, 'device', 'name')} {_text(far, 'name')}"
            left_out.append(f"port without a clear number, cable left out: {told}")
        else:
            left_out.append(f"no cable to a switch: {device.name} {one_line(name)}")


def _port_number(name: str) -> str:
    """ "7", "Port 7", "swp7" and "IB1/7" (module 1, port 7). Other names with several numbers have no clear one."""
    found = re.fullmatch(r"[^0-9]*(?:1/)?([0-9]{1,3})", name)
    return found[1] if found else ""


def _batches(numbers: Sequence[int]) -> Iterator[Sequence[int]]:
    return (numbers[i : i + BATCH] for i in range(0, len(numbers), BATCH))


def _items(item: Item, name: str) -> list[dict[str, Any]]:
    found = item.get(name)
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _at(item: Item, path: Sequence[str]) -> object:
    found: object = item
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None
    return found


def _text(item: Item, *path: str) -> str:
    found = _at(item, path)
    return one_line(found).strip() if isinstance(found, str) else ""


def _number(item: Item, *path: str) -> int:
    """0 for none: NetBox counts from 1."""
    found = _at(item, path)
    return found if isinstance(found, int) and not isinstance(found, bool) else 0
