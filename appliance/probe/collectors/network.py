"""Network interfaces from sysfs, their addresses and queueing disciplines from rtnetlink (no program is started)."""

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
GETQDISC, NEWQDISC = 38, 36
GETFILTER, NEWFILTER = 46, 44
REQUEST_DUMP = 0x301
ADDRESS, LOCAL = 1, 2
HEADER = struct.Struct("=IHHII")
IFADDR = struct.Struct("=BBBBI")
TCMSG = struct.Struct("=BxxxiIII")
KIND, OPTIONS, TBF_PARMS = 1, 2, 1
SLOWING = ("tbf", "netem", "htb", "hfsc", "cbq", "cake")
"""Queueing disciplines that limit the rate, delay or drop packets. The kernel sets none of them by itself (tc(8))."""
ENTRANCES = {"ingress": (0xFFFF0000,), "clsact": (0xFFFFFFF2, 0xFFFFFFF3)}
"""Parents of the filters of such a discipline (linux/pkt_sched.h)."""
ACTIONS = {"u32": 7, "flower": 3, "matchall": 2, "basic": 3, "fw": 4, "bpf": 1}
"""By classifier its attribute with actions (linux/pkt_cls.h)."""
ACT_KIND, ACT_OPTIONS, ACT_PARMS = 1, 2, 2
SHOT, REDIRECTS = 2, frozenset({1, 3})
LOSING = {"police": "police", "gact": "drop", "mirred": "redirect"}
MOST_FILTERS = 10


def collect(ask: Ask) -> Facts:
    """The area ``network``: hardware interfaces, and others that have an address."""
    addresses = _addresses()
    slowed = _slowed()
    interfaces = []
    for name in files.names(ask.path(NET)):
        at = ask.path(f"{NET}/{name}/")
        index = files.number(at + "ifindex") or 0
        mine = addresses.get(index, [])
        own = [address for address in mine if not address.startswith("fe80:")]
        if name != "lo" and (own or files.exists(at + "device")) and files.exists(at + "mtu"):
            interfaces.append({**_interface(name, at, mine), **slowed.get(index, {})})
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
    for body in _dump(GETADDR, IFADDR.pack(0, 0, 0, 0, 0), NEWADDR):
        index, address = parse(body)
        found.setdefault(index, []).append(address)
    return found


def _slowed() -> dict[int, Facts]:
    """Return by interface index the last discipline that slows it, and filters that drop packets."""
    found: dict[int, Facts] = {}
    entrances: list[tuple[int, int]] = []
    for body in _dump(GETQDISC, TCMSG.pack(0, 0, 0, 0, 0), NEWQDISC):
        index, kind, rate = discipline(body)
        if kind in SLOWING:
            found.setdefault(index, {}).update(slowed_by=kind, slowed_to=rate)
        entrances += [(index, parent) for parent in ENTRANCES.get(kind, ())]
    for index, parent in entrances:
        told = list(_filters(index, parent))[:MOST_FILTERS]
        if told:
            found.setdefault(index, {}).setdefault("filters", []).extend(told)
    return found


def _filters(index: int, parent: int) -> Iterator[Facts]:
    """Return filters of an interface that drop or redirect packets."""
    for body in _dump(GETFILTER, TCMSG.pack(0, index, 0, parent, 0), NEWFILTER):
        does = losing(body)
        if does:
            priority = TCMSG.unpack_from(body)[4] >> 16
            at = f"ffff:{parent & 0xFFFF:x}" if parent & 0xFFFF else "ffff:"
            yield {"does": does, "parent": at, "priority": priority}


def losing(body: bytes) -> str:
    """Return what the filter of a NEWTFILTER body does with packets: police, drop or redirect; empty for others."""
    said = attributes(body[TCMSG.size :])
    kind = said.get(KIND, b"").rstrip(b"\0").decode("ascii", "replace")
    options = attributes(said.get(OPTIONS, b""))
    for act in attributes(options.get(ACTIONS.get(kind, 0), b"")).values():
        found = attributes(act)
        name = found.get(ACT_KIND, b"").rstrip(b"\0").decode("ascii", "replace")
        parms = attributes(found.get(ACT_OPTIONS, b"")).get(ACT_PARMS, b"")
        # struct tc_gen: index, capab, action, refcnt, bindcnt; of mirred the kind of its work follows.
        numbers = struct.unpack_from("=IIiiii", parms + bytes(24))
        if name == "gact" and numbers[2] != SHOT:
            continue
        if name == "mirred" and numbers[5] not in REDIRECTS:
            continue
        if name in LOSING:
            return LOSING[name]
    return ""


def discipline(body: bytes) -> tuple[int, str, int | None]:
    """Interface index, kind and bit/s of a NEWQDISC body; only tbf has its rate here, others have it in classes."""
    found = attributes(body[TCMSG.size :])
    kind = found.get(KIND, b"").rstrip(b"\0").decode("ascii", "replace")
    parms = attributes(found.get(OPTIONS, b"")).get(TBF_PARMS, b"") if kind == "tbf" else b""
    rate = struct.unpack_from("=I", parms, 8)[0] * 8 if len(parms) >= 12 else None
    return TCMSG.unpack_from(body)[1], kind, rate


def _dump(ask: int, what: bytes, told: int) -> Iterator[bytes]:
    """Bodies of the kernel's answers."""
    kind = socket.SOCK_RAW | socket.SOCK_CLOEXEC
    with socket.socket(socket.AF_NETLINK, kind, socket.NETLINK_ROUTE) as kernel:
        kernel.settimeout(2.0)
        head = HEADER.pack(HEADER.size + len(what), ask, REQUEST_DUMP, 1, 0)
        kernel.sendto(head + what, (0, 0))
        done = False
        while not done:
            for kind, body in messages(kernel.recv(1 << 16)):
                done = done or kind in {DONE, FAILED}
                if kind == told:
                    yield body


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
        found[kind & 0x3FFF] = data[4:length]
        data = data[length + 3 & ~3 :]
    return found
