"""Listening sockets of the host and their programs, from the kernel's tables; connections to the host's own services."""

from __future__ import annotations

import errno
import os
import re
import socket
import struct
from contextlib import contextmanager
from typing import NamedTuple

from appliance.probe import files
from appliance.probe.collectors.network import DONE, FAILED, HEADER, attributes, messages
from appliance.probe.lines import lines_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from appliance.probe.ask import Ask

TABLES = {"tcp": "0A", "tcp6": "0A", "udp": "07", "udp6": "07"}
"""Tables of /proc/net, and the state of a listening socket (kernel.org, proc_net_tcp)."""
SOCK_DIAG, BY_FAMILY, DUMP = 4, 20, 0x301
"""linux/netlink.h, linux/sock_diag.h."""
ONLY_V6 = 11
"""INET_DIAG_SKV6ONLY, an attribute of IPv6 sockets that listen (linux/inet_diag.h)."""
MAPPED = bytes(10) + b"\xff\xff"
"""Prefix of an IPv4-mapped IPv6 address (RFC 4291, 2.5.5.2)."""
DIAG, OWNER = struct.Struct("=BBBBI48x"), struct.Struct("=I")
"""inet_diag_req_v2 for all addresses, and a field of inet_diag_msg (linux/inet_diag.h)."""
PEOPLE = 1000
"""First uid of users, whose sockets are not part of the host."""
JOBS = frozenset({"srun", "slurmstepd", "orted", "prted", "sshd-session"})
"""Programs that start and end with jobs and sessions."""
MOST = 50_000
"""Maximum number of descriptors read of users' processes: one process may have half a million."""
UID = re.compile(r"^Uid:\s*([0-9]+)", re.M)
"""The real uid, which setuid does not change (proc(5))."""
SOCKET = re.compile(r"socket:\[(\d+)\]")
LOCAL = re.compile(r"^(0100007F|0{24}01000000|0{16}FFFF00000100007F)$")


def listening(ask: Ask) -> Iterator[tuple[str, str]]:
    """Return ports such as "tcp 22" or "tcp 25 local" with their programs; a port that the kernel chose is named by its program."""
    rows = list(_rows(ask))
    holders = _holders(ask, {inode for _, _, inode in rows})
    found: dict[str, set[str]] = {}
    for name, port, inode in rows:
        programs = holders.get(inode, {"the kernel"} if inode == "0" else {"unknown"}) - JOBS
        if programs:
            if "systemd" in programs:  # which starts the program behind it when somebody connects
                programs = {"systemd"}
            told = sorted(programs)[0]
            # What asks the port mapper for its port gets another after each start (rpcbind(8)).
            chosen = not port or told.startswith("rpc.")
            found.setdefault(_any_port(name, told) if chosen else name, set()).update(programs)
    for name in sorted(found):
        yield name, " ".join(sorted(found[name]))


def _any_port(name: str, program: str) -> str:
    return f"{name.split()[0]} of {program}, on any port"


def _rows(ask: Ask) -> Iterator[tuple[str, int, str]]:
    first_high = int(
        (files.text(ask.path("/proc/sys/net/ipv4/ip_local_port_range")) or "32768").split()[0]
    )
    for table, state in TABLES.items():
        for line in lines_of(files.text(ask.path("/proc/net/" + table)))[1:]:
            words = line.split()
            address, _, port = words[1].partition(":")
            if words[3] != state or int(words[7]) >= PEOPLE or int(words[2].partition(":")[2], 16):
                continue
            number = int(port, 16)
            where = " local" if LOCAL.match(address) else ""
            high = number >= first_high
            if not (high and state == TABLES["udp"]):  # a client's
                yield f"{table.rstrip('6')} {number}{where}", 0 if high else number, words[9]


def _processes(ask: Ask) -> list[tuple[bool, str]]:
    """Return each process id, and whether it is a user's; these come last."""
    found = []
    for pid in filter(str.isdigit, files.names(ask.path("/proc"))):
        said = UID.search(files.text(ask.path(f"/proc/{pid}/status")))
        found.append((said is not None and int(said.group(1)) >= PEOPLE, pid))
    return sorted(found)


def _holders(ask: Ask, inodes: set[str]) -> dict[str, set[str]]:
    """Return by socket the names of programs that have it open; only root sees those of others."""
    found: dict[str, set[str]] = {}
    left = MOST
    for is_persons, pid in _processes(ask):
        if is_persons and left <= 0:
            break
        folder = ask.path(f"/proc/{pid}/fd")
        descriptors = files.names(folder)
        if is_persons:
            descriptors = descriptors[:left]
            left -= len(descriptors)
        # One by one: a program may close a descriptor while they are read.
        links = (files.link(f"{folder}/{fd}") or "" for fd in descriptors)
        for held in filter(None, map(SOCKET.match, links)):
            if held.group(1) in inodes:
                program = files.text(ask.path(f"/proc/{pid}/comm"), "unknown")
                found.setdefault(held.group(1), set()).add(program)
    return found


class Holder(NamedTuple):
    """The process that listens on a port; ``of_all``: on every address."""

    program: str
    process: int
    of_all: bool


def holders_of(ask: Ask, ports: tuple[int, ...]) -> dict[int, list[Holder]]:
    """Return holders by port; walks over all processes if one of the ports is in use."""
    wanted: dict[str, tuple[int, bool]] = {}
    for table in ("tcp", "tcp6"):
        for line in lines_of(files.text(ask.path("/proc/net/" + table)))[1:]:
            words = line.split()
            address, _, port = words[1].partition(":")
            if words[3] == TABLES[table] and int(port, 16) in ports:
                wanted[words[9]] = (int(port, 16), not address.strip("0"))
    found: dict[int, list[Holder]] = {}
    for _, pid in _processes(ask) if wanted else ():
        folder = ask.path(f"/proc/{pid}/fd")
        for fd in files.names(folder)[:MOST]:
            held = SOCKET.match(files.link(f"{folder}/{fd}") or "")
            if held and held[1] in wanted:
                number, of_all = wanted[held[1]]
                program = files.text(ask.path(f"/proc/{pid}/comm"), "unknown")
                found.setdefault(number, []).append(Holder(program, int(pid), of_all))
    return found


class Stranger(ConnectionRefusedError):
    """A user's program has the port; ``strerror`` names the user."""


@contextmanager
def connected(address: tuple[str, int], patience: float) -> Iterator[socket.socket]:
    """Return a connection to a service of this host. Raises OSError, or Stranger if a user's program listens.

    The kernel is asked before and after, so that nobody takes the port for the moment in between.
    """
    _require_service(address)
    with socket.create_connection(address, patience) as wire:
        _require_service(address)
        yield wire


def _require_service(address: tuple[str, int]) -> None:
    owners = _owners(*address)
    if not owners:
        raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
    people = owners - {*range(PEOPLE), os.geteuid()}
    if people:
        raise Stranger(0, f"account {min(people)} holds port {address[1]}")


class Listener(NamedTuple):
    """A listening socket. ``address``: 4 or 16 bytes; ``only_v6``: does not accept IPv4."""

    address: bytes
    port: int
    uid: int
    only_v6: bool = False


def _owners(host: str, port: int) -> set[int]:
    """Return the owners of sockets that accept connections to this IPv4 address.

    The kernel prefers a socket of the address itself to one of all addresses (ip(7)). A person may listen on the same
    port of another address, and takes nothing.
    """
    own = socket.inet_aton(host)
    there = [one for one in (*_asked(socket.AF_INET), *_asked(socket.AF_INET6)) if one.port == port]
    exact = {one.uid for one in there if one.address in {own, MAPPED + own}}
    of_all = {one.uid for one in there if not any(one.address) and not one.only_v6}
    return exact or of_all


def _asked(family: int) -> list[Listener]:
    """Return listening sockets from sock_diag(7), or from the kernel's tables, which must be read whole."""
    found: list[Listener] = []
    is_whole = False
    kind = socket.SOCK_RAW | socket.SOCK_CLOEXEC
    with socket.socket(socket.AF_NETLINK, kind, SOCK_DIAG) as kernel:
        kernel.settimeout(2.0)
        body = DIAG.pack(family, socket.IPPROTO_TCP, 0, 0, 1 << int(TABLES["tcp"], 16))
        kernel.sendto(HEADER.pack(HEADER.size + len(body), BY_FAMILY, DUMP, 1, 0) + body, (0, 0))
        while not is_whole:
            for kind, said in messages(kernel.recv(1 << 16)):
                if kind == FAILED:
                    return _listed("tcp6" if family == socket.AF_INET6 else "tcp")
                is_whole = is_whole or kind == DONE
                if kind == BY_FAMILY:
                    found.append(_listener(family, said))
    return found


def _listener(family: int, said: bytes) -> Listener:
    size = 16 if family == socket.AF_INET6 else 4
    port, uid = int.from_bytes(said[4:6], "big"), OWNER.unpack_from(said, 64)[0]
    return Listener(said[8 : 8 + size], port, uid, attributes(said[72:]).get(ONLY_V6) == b"\1")


def _listed(table: str) -> list[Listener]:
    rows = (line.split() for line in lines_of(files.text(f"/proc/net/{table}"))[1:])
    return [_in_table(row[1], int(row[7])) for row in rows if row[3] == TABLES["tcp"]]


def _in_table(local: str, uid: int) -> Listener:
    """Parse the table, in which an address is 32-bit numbers in host byte order."""
    address, _, port = local.partition(":")
    words = [int(address[at : at + 8], 16) for at in range(0, len(address), 8)]
    return Listener(struct.pack(f"={len(words)}I", *words), int(port, 16), uid)
