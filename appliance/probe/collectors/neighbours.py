"""Tests a few other hosts: packets of both sizes, ports, the file server, name servers, and duplicate addresses.

The control machine selects at most four others. All are tested concurrently, and an answer ends the wait; nothing waits longer
than ``PATIENCE``, except for a file server that has accepted a connection.
"""

from __future__ import annotations

import errno
import os
import re
import selectors
import socket
import struct
import threading
import time
from contextlib import suppress

from appliance.probe import files
from appliance.probe.ask import Ask
from appliance.probe.lines import lines_of
from appliance.probe.problems import DENIED, Absent, Unreadable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from appliance.probe.ask import Facts

PATIENCE = 1.2
AGAIN = 0.4
"""Seconds after which an unanswered request is repeated."""
OF_A_SERVER = 5.0
"""Seconds within which a file server answers a call, even on an overloaded host."""
MOST = 5
"""Tested hosts, including the host itself."""
MOST_FIXED = 40
MOST_SERVERS = 3
"""As libc (resolv.conf(5), MAXNS)."""
ECHO, REPLY = 8, 0
KINDS = ("small", "large")
SMALL = 56
IP_AND_ICMP = 28
IP_MTU_DISCOVER, PROBE = 10, 3
"""linux/in.h: no fragment, whatever the kernel has learned of the path."""
NFS_PORT = 2049
NULL = struct.pack(">IIIIIIIIIII", 0x80000028, 0x61707031, 0, 2, 100003, 4, 0, 0, 0, 0, 0)
"""An NFS version 4 call without effect (RFC 5531, RFC 7530); any reply is sufficient."""
QUERY = struct.pack(">HHHHHH", 0x6170, 0x0100, 1, 0, 0, 0) + b"\0" + struct.pack(">HH", 2, 1)
"""A query for the name servers of the root (RFC 1035); a refusal is an answer, too."""
RESOLV = "/etc/resolv.conf"
NSSWITCH = "/etc/nsswitch.conf"
UPSTREAM = "/run/systemd/resolve/resolv.conf"
STUBS = ("127.0.0.53", "127.0.0.54")
ARP = "/proc/net/arp"
CLOSED = frozenset({"blackhole", "unreachable", "prohibit"})
"""Types of routes that lead nowhere (ip-route(8))."""
FIXED = frozenset({"PERMANENT", "NOARP"})
"""States of permanent entries (ip-neighbour(8))."""
OF_CLUSTER = re.compile(r"KUBE-|CNI-|cali-|CILIUM_")
OF_STAGES = re.compile(r"inet appliance(_[a-z]+)?|\w+ (kube-\S+|cilium\S*|cali\S*|antrea\S*|kube)")
"""Firewall tables of the stages and of pod networks."""
MOST_TABLES = 8
MOST_BLOCKS = 40
HANDLE = re.compile(r" # handle (\d{1,10})$")
PORTS = re.compile(r"\b[sd]port (\{[^}]{1,500}\}|\d{1,5}(?:-\d{1,5})?)")
REFUSES = re.compile(r"\b(drop|reject)\b")
FEW_PORTS = 200
NEEDED = (2049, 6817, 6818, 6819, 50001)
"""Ports that hosts use between each other; of a long range of ports, only these are reported."""


class Waiting:
    """Sockets that wait for an answer, each with its handler; True ends the wait."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._open: list[socket.socket] = []
        self._slow: set[socket.socket] = set()
        self.again: list[Callable[[], None]] = []

    def add(self, one: socket.socket, event: int, act: Callable[[], bool]) -> None:
        """Add a socket to wait for."""
        self._open.append(one)
        self._selector.register(one, event, act)

    def change(self, one: socket.socket, event: int, act: Callable[[], bool]) -> None:
        """Wait up to ``OF_A_SERVER`` for its next answer."""
        self._selector.modify(one, event, act)
        self._slow.add(one)

    def run(self, patience: float) -> None:
        """Wait until all have answered, or until the time is over."""
        began = time.monotonic()
        asked = began
        while waiting := self._selector.get_map():
            now = time.monotonic()
            if now - began >= patience:
                if patience >= OF_A_SERVER or not any(
                    key.fileobj in self._slow for key in waiting.values()
                ):
                    break
                patience = OF_A_SERVER
            if now - asked >= AGAIN:
                asked = now
                for ask in self.again:
                    ask()
            for key, _ in self._selector.select(min(AGAIN, began + patience - now)):
                act = key.data
                if act():
                    self._selector.unregister(key.fileobj)
        for one in self._open:
            one.close()
        self._selector.close()


def collect(ask: Ask) -> Facts:
    """The area ``neighbours``."""
    peers = [_peer(said) for said in ask.peers[:MOST]]
    waiting = Waiting()
    names = threading.Thread(target=_resolve, args=(peers,), daemon=True)
    names.start()
    pinged = _ping(ask, waiting, [one for one in peers if not one["own"]])
    for one in peers:
        for port in one["ports"]:
            _connect(waiting, one, port)
    servers = _servers(ask)
    for server in servers:
        _query(waiting, server)
    waiting.run(PATIENCE)
    names.join(PATIENCE)
    macs = _macs(ask)
    found = [{**_told(one), "mac": macs.get(one["address"], "")} for one in peers]
    for one in found:
        one["barrier"] = _barrier(ask, one["address"]) if one["small"] is False else ""
    if not pinged:
        ask.problem("neighbours", "needs root to send packets", DENIED)
    blocks = list(_blocks(ask))[:MOST_BLOCKS]
    said = {
        "peers": found,
        "name_servers": servers,
        "blocks": blocks,
        "sources": _sources(ask),
        "fixed": _fixed(ask),
    }
    if servers and not any(server["answers"] for server in servers):
        # More often than all servers, the way to them is wrong.
        ways = _ip(ask, "route", "show", "default")
        said["gateway"] = next((words[2] for words in ways if words[1] == "via"), "")
    return {"neighbours": said}


def _sources(ask: Ask) -> str | None:
    """Sources of host names in nsswitch.conf(5); None if not set."""
    for line in lines_of(files.text(ask.path(NSSWITCH))):
        word, colon, rest = line.partition("#")[0].partition(":")
        if colon and word.strip() == "hosts":
            return " ".join(rest.split())[:200]
    return None


def _barrier(ask: Ask, address: str) -> str:
    """The route or permanent entry that blocks an address, as arguments of ``ip`` for its deletion; empty if none."""
    for words in _ip(ask, "route", "show", "table", "all", "match", address):
        if words[0] in CLOSED:
            return "route del " + " ".join(words[:2] + _pairs(words, "table", "metric"))
    for words in _ip(ask, "neigh", "show", address):
        if FIXED.intersection(words):
            return f"neigh del {address} " + " ".join(_pairs(words, "dev"))
    return ""


def _ip(ask: Ask, *words: str) -> list[list[str]]:
    try:
        said = ask.run(["ip", "-4", *words], 2.0)
    except (Absent, Unreadable):
        return []
    return [line.split() for line in lines_of(said) if line.strip()]


def _pairs(words: list[str], *names: str) -> list[str]:
    """The given options with their values."""
    return [
        word
        for name in names
        if name in words[:-1]
        for word in words[words.index(name) : words.index(name) + 2]
    ]


def _blocks(ask: Ask) -> Iterator[Facts]:
    """Blocking rules of unmanaged tables: arguments of ``nft`` for deletion, and ports; no ports means all."""
    if os.geteuid() or not ask.has("nft"):
        return
    try:
        known = [line[6:] for line in lines_of(ask.run(["nft", "list", "tables"], 3.0))]
        for table in [name for name in known if not OF_STAGES.fullmatch(name)][:MOST_TABLES]:
            listed = ["nft", "--stateless", "--numeric", "--handle", "list", "table"]
            yield from blocks(table, ask.run([*listed, *table.split()], 3.0))
    except Unreadable:
        return


def blocks(table: str, said: str) -> Iterator[Facts]:
    """Return blocking rules in the output of ``nft --handle list table``, except those of Kubernetes and pod networks, which restore them."""
    chain = ""
    for line in (raw.strip() for raw in lines_of(said)):
        if line.startswith("chain "):
            chain = line.split()[1]
            if OF_CLUSTER.match(chain):
                chain = ""
        elif line.startswith("type ") and "hook" in line and "policy drop" in line:
            yield {"by": f"chain {table} {chain}", "says": line[:100], "ports": []}
        elif chain and REFUSES.search(line):
            handle = HANDLE.search(line)
            if handle:
                by = f"rule {table} {chain} handle {handle[1]}"
                yield {"by": by, "says": line[: handle.start()][:100], "ports": _ports_in(line)}


def _ports_in(line: str) -> list[int]:
    found: list[int] = []
    for group in PORTS.findall(line):
        for part in group.strip("{} ").split(","):
            first, _, last = part.strip().partition("-")
            if first.isdigit() and (last or first).isdigit():
                span = range(int(first), int(last or first) + 1)
                found += span if len(span) <= FEW_PORTS else [p for p in NEEDED if p in span]
    return found


def _peer(said: dict[str, Any]) -> dict[str, Any]:
    ports = [{"port": port, "state": "silent"} for port in said["ports"]]
    known = {"name": said["name"], "address": said["address"], "own": said["own"]}
    return {**known, "ports": ports, "small": None, "large": None, "size": 0, "resolved": None}


def _told(one: dict[str, Any]) -> Facts:
    return {**one, "resolved": None if one["resolved"] is None else list(one["resolved"])}


def _resolve(peers: list[dict[str, Any]]) -> None:
    """Resolve as every program does, by the host's order of sources."""
    for one in peers:
        try:
            found = socket.getaddrinfo(one["name"], None, socket.AF_INET, socket.SOCK_STREAM)
        except OSError:
            one["resolved"] = []
            continue
        one["resolved"] = sorted({str(entry[4][0]) for entry in found})


def _ping(ask: Ask, waiting: Waiting, peers: list[dict[str, Any]]) -> bool:
    """Send each host a small packet and one of the interface's MTU. False if that is not permitted."""
    if not peers:
        return True
    try:
        door = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
    except PermissionError:
        return False
    door.setblocking(False)
    door.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, PROBE)
    size = _sizes(ask)
    for one in peers:
        one.update({"small": False, "large": False, "size": size(one["address"])})
    echoes = Echoes(door, peers)
    echoes.send()
    waiting.again.append(echoes.send)
    waiting.add(door, selectors.EVENT_READ, echoes.take)
    return True


class Echoes:
    """Packets of both sizes to each tested host, identified by sequence numbers."""

    def __init__(self, door: socket.socket, peers: list[dict[str, Any]]) -> None:
        self._door, self._peers = door, peers
        self._mine = struct.pack(">H", os.getpid() & 0xFFFF)

    def send(self) -> None:
        """Send the packets that were not answered."""
        for number, one in enumerate(self._peers):
            for large, kind in enumerate(KINDS):
                if not one[kind]:
                    size = one["size"] if large else SMALL + IP_AND_ICMP
                    packet = echo(self._mine, 2 * number + large, size - IP_AND_ICMP)
                    with suppress(OSError):
                        self._door.sendto(packet, (one["address"], 0))

    def take(self) -> bool:
        """Read answers; True when all have arrived."""
        with suppress(BlockingIOError):
            while True:
                data, sender = self._door.recvfrom(1 << 16)
                number = reply(data, self._mine)
                if number is not None and number // 2 < len(self._peers):
                    one = self._peers[number // 2]
                    if sender[0] == one["address"]:
                        one[KINDS[number % 2]] = True
        return all(one["small"] and one["large"] for one in self._peers)


def echo(mine: bytes, sequence: int, size: int) -> bytes:
    """Return an echo request with so many bytes of data (RFC 792)."""
    body = bytes(size)
    head = struct.pack(">BBH", ECHO, 0, 0) + mine + struct.pack(">H", sequence)
    total = sum(struct.unpack(f">{len(head) // 2}H", head))
    total = (total >> 16) + (total & 0xFFFF)
    return head[:2] + struct.pack(">H", ~(total + (total >> 16)) & 0xFFFF) + head[4:] + body


def reply(data: bytes, mine: bytes) -> int | None:
    """Return the number of the request that this packet answers."""
    start = (data[0] & 15) * 4 if data else 0
    if len(data) < start + 8 or data[start] != REPLY or data[start + 4 : start + 6] != mine:
        return None
    number: int = struct.unpack(">H", data[start + 6 : start + 8])[0]
    return number


def _sizes(ask: Ask) -> Callable[[str], int]:
    """Return the MTU of the interface that leads to each address; 1500 if unknown."""
    from appliance.probe.collectors import network

    of_address = {
        address.partition("/")[0]: index
        for index, addresses in network._addresses().items()
        for address in addresses
    }

    def size(address: str) -> int:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way:
            try:
                way.connect((address, 9))
                name = socket.if_indextoname(of_address[way.getsockname()[0]])
            except (OSError, KeyError):
                return 1500
        return min(files.number(ask.path(f"/sys/class/net/{name}/mtu")) or 1500, 65535)

    return size


def _connect(waiting: Waiting, peer: dict[str, Any], port: dict[str, Any]) -> None:
    door = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    door.setblocking(False)

    def connected() -> bool:
        trouble = door.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        port["state"] = "refused" if trouble == 111 else "unreachable" if trouble else "open"
        if trouble or port["port"] != NFS_PORT:
            return True
        port["state"] = "hung"
        try:
            door.send(NULL)
        except OSError:
            return True
        waiting.change(door, selectors.EVENT_READ, answered)
        return False

    def answered() -> bool:
        try:
            port["state"] = "open" if door.recv(64) else "hung"
        except OSError:
            port["state"] = "hung"
        return True

    if door.connect_ex((peer["address"], port["port"])) in {0, 115}:
        waiting.add(door, selectors.EVENT_WRITE, connected)
    else:
        port["state"] = "unreachable"
        door.close()


def _servers(ask: Ask) -> list[dict[str, Any]]:
    said = _named(files.text(ask.path(RESOLV)))
    if said and set(said) <= set(STUBS):
        said = _named(files.text(ask.path(UPSTREAM))) or said
    return [{"address": at, "answers": False, "route": True} for at in said[:MOST_SERVERS]]


def _named(text: str) -> list[str]:
    words = [line.split() for line in lines_of(text)]
    return [found[1] for found in words if len(found) > 1 and found[0] == "nameserver"]


def _query(waiting: Waiting, server: dict[str, Any]) -> None:
    family = socket.AF_INET6 if ":" in server["address"] else socket.AF_INET
    door = socket.socket(family, socket.SOCK_DGRAM)
    door.setblocking(False)

    def send() -> None:
        if not server["answers"]:
            try:
                door.send(QUERY)
            except OSError:
                return

    def take() -> bool:
        try:
            server["answers"] = door.recv(512)[:2] == QUERY[:2]
        except OSError:
            return False
        return bool(server["answers"])

    try:
        door.connect((server["address"], 53))
    except OSError as error:
        server["route"] = error.errno != errno.ENETUNREACH
        door.close()
        return
    send()
    waiting.again.append(send)
    waiting.add(door, selectors.EVENT_READ, take)


def _fixed(ask: Ask) -> list[Facts]:
    """Entries that someone has written into that table (linux/if_arp.h: ATF_PERM)."""
    rows = [line.split() for line in lines_of(files.text(ask.path(ARP)))[1:]]
    return [
        {"address": row[0], "mac": row[3], "device": row[5]}
        for row in rows
        if len(row) > 5 and int(row[2], 16) & 4
    ][:MOST_FIXED]


def _macs(ask: Ask) -> dict[str, str]:
    """Return MAC addresses of the kernel's table; an incomplete entry has only zeros."""
    rows = [line.split() for line in lines_of(files.text(ask.path(ARP)))[1:]]
    return {row[0]: row[3] for row in rows if len(row) > 3 and row[3].strip("0:")}
