"""Network interfaces from sysfs, their addresses from one rtnetlink dump (no program is started)."""

from __future__ import annotations

import socket
import struct

from appliance.probe import files
from appliance.probe.ask import Ask

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from appliance.probe.ask import Facts

NET = "/sys/class/net"
# linux/netlink.h, linux/rtnetlink.h, linux/if_addr.h
GETADDR, NEWADDR, DONE, FAILED = 22, 20, 3, 2
REQUEST_DUMP = 0x301
ADDRESS, LOCAL = 1, 2
HEADER = struct.Struct("=IHHII")
IFADDR = struct.Struct("=BBBBI")


def collect(ask: Ask) -> Facts:
    """The area ``network``: interfaces of hardware, and any other that bears an address."""
    addresses = _addresses()
    interfaces = []
    for name in files.names(ask.path(NET)):
        at = ask.path(f"{NET}/{name}/")
        index = files.number(at + "ifindex") or 0
        mine = addresses.get(index, [])
        own = [address for address in mine if not address.startswith("fe80:")]
        if name != "lo" and (own or files.exists(at + "device")) and files.exists(at + "mtu"):
            interfaces.append(_interface(name, at, mine))
    return {"interfaces": interfaces}


def _interface(name: str, at: str, addresses: list[str]) -> dict[str, object]:
    speed = files.number(at + "speed")
    return {
        "name": name,
        "mac": files.text(at + "address"),
        "mtu": files.number(at + "mtu") or 0,
        "state": files.text(at + "operstate", "unknown"),
        "speed": speed if speed and speed > 0 else None,
        "addresses": addresses,
    }


def _addresses() -> dict[int, list[str]]:
    """Addresses with prefix length by interface index."""
    found: dict[int, list[str]] = {}
    kind = socket.SOCK_RAW | socket.SOCK_CLOEXEC
    with socket.socket(socket.AF_NETLINK, kind, socket.NETLINK_ROUTE) as kernel:
        kernel.settimeout(2.0)
        ask = HEADER.pack(HEADER.size + IFADDR.size, GETADDR, REQUEST_DUMP, 1, 0)
        kernel.sendto(ask + IFADDR.pack(0, 0, 0, 0, 0), (0, 0))
        done = False
        while not done:
            for kind, body in messages(kernel.recv(1 << 16)):
                done = done or kind in {DONE, FAILED}
                if kind == NEWADDR:
                    index, address = parse(body)
                    found.setdefault(index, []).append(address)
    return found


def messages(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Type and body of each message of a netlink datagram."""
    while len(data) >= HEADER.size:
        length, kind = HEADER.unpack_from(data)[:2]
        if length < HEADER.size:
            return
        yield kind, data[HEADER.size : length]
        data = data[length + 3 & ~3 :]


def parse(body: bytes) -> tuple[int, str]:
    """Interface index and address of a NEWADDR body; on point-to-point links ADDRESS is the peer's."""
    family, prefix, _, _, index = IFADDR.unpack_from(body)
    found = attributes(body[IFADDR.size :])
    raw = found.get(LOCAL) or found.get(ADDRESS) or b""
    return index, f"{socket.inet_ntop(family, raw)}/{prefix}" if raw else ""


def attributes(data: bytes) -> dict[int, bytes]:
    """By kind the content of each attribute of a netlink message."""
    found = {}
    while len(data) >= 4:
        length, kind = struct.unpack_from("=HH", data)
        if length < 4:
            break
        found[kind] = data[4:length]
        data = data[length + 3 & ~3 :]
    return found
