"""Who listens on the host's network: the kernel's own tables, and the programs that hold these sockets."""

from __future__ import annotations

import re

from appliance.probe import files
from appliance.probe.lines import lines_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from appliance.probe.ask import Ask

TABLES = {"tcp": "0A", "tcp6": "0A", "udp": "07", "udp6": "07"}
"""Table of /proc/net, and the state of a socket that waits for strangers (kernel.org, proc_net_tcp)."""
PEOPLE = 1000
"""From this number on a socket is somebody's work, and no part of the host."""
JOBS = frozenset({"srun", "slurmstepd", "orted", "prted", "sshd-session"})
"""Programs that come and go with jobs and sessions."""
MOST = 50_000
"""Descriptors of people's processes that are looked at: one process may have half a million, and sockets of the host are its daemons'."""
UID = re.compile(r"^Uid:\s*([0-9]+)", re.M)
"""The real user: that of a program that somebody runs with more rights, too (proc(5))."""
SOCKET = re.compile(r"socket:\[(\d+)\]")
LOCAL = re.compile(r"^(0100007F|0{24}01000000|0{16}FFFF00000100007F)$")


def listening(ask: Ask) -> Iterator[tuple[str, str]]:
    """Port as "tcp 22" or "tcp 25 local" and the programs; a port that the kernel chose goes by its program."""
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
    """Each process by its number, and whether it is a person's; these last."""
    found = []
    for pid in filter(str.isdigit, files.names(ask.path("/proc"))):
        said = UID.search(files.text(ask.path(f"/proc/{pid}/status")))
        found.append((said is not None and int(said.group(1)) >= PEOPLE, pid))
    return sorted(found)


def _holders(ask: Ask, inodes: set[str]) -> dict[str, set[str]]:
    """By socket the names of the programs that have it open; only root sees those of others."""
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
