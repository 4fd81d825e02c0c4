"""Obstacles to work that are not a file of a stage: an interrupted package manager, limits and priorities of daemons, the host's own network,
Slurm's folders and plugins, and processes outside jobs that use the processors.

Each is a kind, a place and a value; the check decides what counts, and names the remedy.
"""

from __future__ import annotations

import os
import re
import stat
import struct
from contextlib import suppress

from appliance.probe import files, places
from appliance.probe.collectors import network
from appliance.probe.collectors.filesystems import REMOTE
from appliance.probe.lines import lines_of
from appliance.probe.mounts import TABLE, Row, rows
from appliance.probe.problems import Unreadable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from appliance.probe.accounts import Accounts
    from appliance.probe.ask import Ask, Facts

MOST = 40
UNREAD = "unread"
"""Kind of a reading that ended with an error."""
DPKG = "/var/lib/dpkg"
STATUS = DPKG + "/status"
UNFINISHED = ("half-configured", "half-installed", "unpacked", "triggers-awaited", "triggers-pending")  # fmt: skip
"""States of dpkg(1) that ``dpkg --audit`` reports."""
STATUS_BYTES = 64 << 20
F_GETLK, F_WRLCK = 5, 1
FLOCK = struct.Struct("=hhxxxxqqixxxx")
"""struct flock of 64-bit Linux."""
GROUPS = "/sys/fs/cgroup"
SYSTEM = GROUPS + "/system.slice/"
DAEMONS = {
    "sshd": (SYSTEM + "ssh.service/cgroup.procs", SYSTEM + "sshd.service/cgroup.procs"),
    "slurmd": (SYSTEM + "slurmd.service/cgroup.procs",),
}
"""Daemons from which logins and jobs inherit limits, priority and processors."""
LIMITS = re.compile(
    r"^Max (cpu time|file size|data size|address space|processes|open files) +\S+ +(\d+)", re.M
)
ALLOWED = re.compile(r"^Cpus_allowed:\s*([0-9a-f,]+)", re.M)
PORTS = "/proc/sys/net/ipv4/ip_local_port_range"
LOOPBACK, IPV6 = "/sys/class/net/lo/flags", "/proc/net/if_inet6"
UP = 1
# linux/rtnetlink.h, linux/fib_rules.h
GETRULE, NEWRULE = 34, 32
RULE = struct.Struct("=BBBBBBBBI")
CLOSED = {6: "blackhole", 7: "unreachable", 8: "prohibit"}
PRIORITY, UIDS = 6, 20
SLURM = ("/etc/slurm/slurm.conf", "/etc/slurm-llnl/slurm.conf")
FOLDERS = re.compile(r"^\s*(SlurmdSpoolDir|StateSaveLocation)\s*=\s*(/[\w./-]{1,200})\s*$", re.M | re.I)  # fmt: skip
SAVED = re.compile(r"^\s*StateSaveLocation\s*=\s*(/[\w./-]{1,200})\s*$", re.M | re.I)
SLURM_USER = re.compile(r"^\s*SlurmUser\s*=\s*([a-z_][\w-]{0,31})\s*$", re.M | re.I)
STATES = {
    "/var/lib/prometheus/metrics2": ("prometheus", "prometheus"),
    "/var/lib/mysql": ("mysql", "mariadb"),
}
"""Folders in which a daemon keeps its state: its account and its unit."""
MOST_NAMES = 200
PLUGINS = re.compile(r"^\s*\w+(?:Type|Plugin)\s*=\s*([a-z_]+)/([a-z0-9_]+)", re.M | re.I)
PLUGIN_FOLDERS = ("/usr/lib/x86_64-linux-gnu/slurm-wlm", "/usr/lib/aarch64-linux-gnu/slurm-wlm", "/usr/lib64/slurm")  # fmt: skip
ALWAYS = ("auth_munge.so", "cred_munge.so", "libslurmfull.so")
DENY, ALLOW = "/etc/hosts.deny", "/etc/hosts.allow"
WRAPPED = frozenset({"sshd", "ALL"})
USER_LIMITS = "/etc/security/limits.conf"
USER_LIMIT = re.compile(
    r"^\s*(\*|@?[\w.-]{1,32})\s+(hard|-)\s+(nproc|nofile|as|data|cpu|fsize|maxlogins)\s+(\d{1,15})\s*(?:#|$)",
    re.M,
)
TMP = ("TMPDIR", "TMP", "TEMP")
ASSIGNED = re.compile(r"^(?:export\s+)?(PATH|TMPDIR|TMP|TEMP)=[\"']?([^\"'\s;]*)", re.M)
DONE = re.compile(r"^(umask\s+0?[2-7][0-7]{2}\b|sleep\s+[1-9]\d{0,5}\b|set\s+-[a-z]*e\b)", re.M)
ENTERED = re.compile(r"^cd\s+(/[\w./-]{1,200})\s*\|\|\s*(?:exit|logout)\b", re.M)
PROFILES = "/etc/profile"
LONGEST_SCRIPT = 100_000
"""Characters of an argument (execve(2): 128 KiB)."""
IN_PATH = frozenset({"/usr/bin", "/bin"})
PRESSURE = re.compile(r"^some .*\bavg60=(\d+\.\d+)", re.M)
STARTED_S, USED_S = 45.0, 20.0
"""The minimum age of a process and the minimum of its processor time for its use to be listed."""
LEAST_CORES = 0.2
MOST_PROCESSES = 200


def collect(ask: Ask, accounts: Accounts, startup: dict[str, str], groups: list[str]) -> list[Facts]:  # fmt: skip
    """All of them. ``startup``: texts of shells' files by path; ``groups``: control groups outside jobs."""
    found: list[Facts] = []
    unread: list[Facts] = []
    looks = {
        "package manager": _packages(ask),
        "daemons": _daemons(ask),
        "network": _network(ask),
        "Slurm": _slurm(ask),
        "state of daemons": _states(ask, accounts),
        DENY: _denied(ask),
        USER_LIMITS: _user_limits(ask),
        "login scripts": _startup(ask, startup),
        "processors": _processors(ask, accounts, groups),
    }
    for name, look in looks.items():
        try:
            found += look
        except (FileNotFoundError, ProcessLookupError):
            continue  # A process or a file went while it was read.
        except OSError as error:
            unread.append(_one(UNREAD, name, error.strerror or type(error).__name__))
    return [*unread, *found][:MOST]


def _one(kind: str, at: str, says: str = "", value: float | None = None, of: str = "") -> Facts:
    return {"kind": kind, "at": at, "says": says, "value": value, "of": of}


def _packages(ask: Ask) -> Iterator[Facts]:
    """Return what an interrupted dpkg left behind; while dpkg runs, its lock."""
    if not files.exists(ask.path(STATUS)):
        return
    for name in ("lock-frontend", "lock"):
        pid = _holder(ask.path(f"{DPKG}/{name}"))
        if pid:
            state, age, _ = _process(ask, pid)
            program = files.text(ask.path(f"/proc/{pid}/comm"))
            yield {**_one("package lock", program, state, age), "process": pid}
            return
    for name, state in unfinished(files.data(ask.path(STATUS), STATUS_BYTES)):
        yield _one("package", name, state)
    if any(name.isdigit() for name in files.names(ask.path(DPKG + "/updates"))):
        yield _one("package journal", DPKG + "/updates")


def unfinished(status: bytes) -> Iterator[tuple[str, str]]:
    """Packages of dpkg's database that are neither installed nor removed. Searched, not parsed: it has 100,000 lines."""
    for state in UNFINISHED:
        word = f" {state}\n".encode()
        at = status.find(word)
        while at >= 0:
            start = status.rfind(b"\n", 0, at) + 1
            if status.startswith(b"Status: ", start):
                begin = status.rfind(b"Package: ", 0, start)
                name = status[begin + 9 : status.find(b"\n", begin)] if begin >= 0 else b""
                yield name.decode("utf-8", "replace"), state
            at = status.find(word, at + 1)


def _holder(path: str) -> int:
    """The process that holds a lock of fcntl(2) on a file; 0 if none does."""
    import fcntl

    try:
        fd = places.opened(path)
    except OSError:
        return 0
    try:
        said = fcntl.fcntl(fd, F_GETLK, FLOCK.pack(F_WRLCK, 0, 0, 0, 0))
    except OSError:
        return 0
    finally:
        os.close(fd)
    kind, _, _, _, pid = FLOCK.unpack(said)
    return int(pid) if kind in {0, F_WRLCK} and pid > 0 else 0


def _process(ask: Ask, pid: object) -> tuple[str, float, float]:
    """State, age and processor time of a process, in s (proc(5))."""
    words = files.text(ask.path(f"/proc/{pid}/stat")).rpartition(")")[2].split()
    uptime = files.text(ask.path("/proc/uptime")).partition(" ")[0]
    if len(words) < 20:
        return "", 0.0, 0.0
    tick = os.sysconf("SC_CLK_TCK")
    age = float(uptime or 0) - int(words[19]) / tick
    return words[0], round(max(age, 0.0), 1), (int(words[11]) + int(words[12])) / tick


def _daemons(ask: Ask) -> Iterator[Facts]:
    for name, at in DAEMONS.items():
        pid = next(filter(None, (files.text(ask.path(one)).partition("\n")[0] for one in at)), "")
        if not pid.isdigit():
            continue
        for limit, value in LIMITS.findall(files.text(ask.path(f"/proc/{pid}/limits"))):
            yield _one("limit", name, limit, int(value))
        # A container is started with the priority of whatever starts it.
        nice = _nice(ask, pid) - _nice(ask, "1")
        if nice > 0:
            yield _one("priority", name, "", nice)
        if name == "sshd":
            own, every = (_processor_count(ask, one) for one in (pid, "1"))
            if own and own < every:
                yield _one("affinity", name, str(every), own)


def _nice(ask: Ask, pid: str) -> int:
    words = files.text(ask.path(f"/proc/{pid}/stat")).rpartition(")")[2].split()
    return int(words[16]) if len(words) > 16 else 0


def _processor_count(ask: Ask, pid: str) -> int:
    found = ALLOWED.search(files.text(ask.path(f"/proc/{pid}/status")))
    return bin(int(found[1].replace(",", ""), 16)).count("1") if found else 0


def _network(ask: Ask) -> Iterator[Facts]:
    flags = files.number(ask.path(LOOPBACK))
    if flags is not None and not flags & UP:
        yield _one("loopback", "lo")
    ends = files.text(ask.path(PORTS)).split()
    if len(ends) == 2 and all(end.isdigit() for end in ends):
        yield _one("ports", PORTS, " ".join(ends), int(ends[1]) - int(ends[0]) + 1)
    if ask.root:
        return
    families = (2, 10) if files.exists(ask.path(IPV6)) else (2,)
    for family in families:
        for body in network._dump(GETRULE, RULE.pack(family, *[0] * 8), NEWRULE):
            yield from rule(body)


def rule(body: bytes) -> Iterator[Facts]:
    """A rule of routing that refuses packets, of a NEWRULE body."""
    family, action = body[0], body[7]
    if action in CLOSED:
        said = network.attributes(body[RULE.size :])
        priority = struct.unpack("=I", said.get(PRIORITY, bytes(4)))[0]
        uids = said.get(UIDS, b"")
        whose = "-".join(map(str, struct.unpack("=II", uids))) if len(uids) == 8 else ""
        yield _one("rule", "IPv4" if family == 2 else "IPv6", CLOSED[action], priority, whose)


def _slurm(ask: Ask) -> Iterator[Facts]:
    text = next(filter(None, (files.text(ask.path(at)) for at in SLURM)), "")
    if not text:
        return
    mounted = files.data(ask.path(TABLE)) if files.exists(ask.path(TABLE)) else b""
    for name, at in FOLDERS.findall(text):
        daemon = "slurmd" if name.lower() == "slurmdspooldir" else "slurmctld"
        is_needed = daemon == "slurmctld" or files.exists(ask.path(DAEMONS[daemon][0]))
        if is_needed and ask.has(daemon):
            if is_read_only(at, mounted):
                yield _one("read-only", at, daemon)
            mount = mount_of(at, mounted)
            if mount and mount.type not in REMOTE and not mount.type.startswith("fuse"):
                room = os.statvfs(ask.path(mount.at))
                yield _one(
                    "room", at, daemon, min(room.f_bavail * room.f_frsize, room.f_favail << 12)
                )
    folder = next((at for at in PLUGIN_FOLDERS if files.exists(ask.path(at))), "")
    if folder:
        named = (f"{kind}_{plugin}.so".lower() for kind, plugin in PLUGINS.findall(text))
        yield from _plugins(ask, folder, sorted({*ALWAYS, *named}))


def _states(ask: Ask, accounts: Accounts) -> Iterator[Facts]:
    """Return the first entry of each folder that its daemon cannot use. Packages leave world-readable files of root there."""
    text = next(filter(None, (files.text(ask.path(at)) for at in SLURM)), "")
    folders = dict(STATES)
    saved, user = SAVED.search(text), SLURM_USER.search(text)
    if saved and user and ask.has("slurmctld"):
        folders[saved[1]] = (user[1], "slurmctld")
    for at, (name, unit) in folders.items():
        row = accounts.users.get(name)
        if row is None:
            continue
        # Of a folder that root has closed inside the account's place, no names are read.
        inside = [f"{at}/{entry}" for entry in files.names(ask.path(at))[:MOST_NAMES]]
        for path in (at, *inside):
            try:
                found = places.entry(ask.path(path))
            except FileNotFoundError:
                continue
            is_readable = not stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_IROTH
            if found.st_uid != int(row[2]) and not is_readable:
                yield _one("owner", at, path, of=f"{name} {unit}")
                break


def is_read_only(path: str, mountinfo: bytes) -> bool:
    """Decide by the last mount on the path; the folder belongs to Slurm's account, so it is not entered."""
    last = mount_of(path, mountinfo)
    return last is not None and "ro" in (*last.options, *last.of_all)


def mount_of(path: str, mountinfo: bytes) -> Row | None:
    """Return the last mount on the path."""
    found = [row for row in rows(mountinfo)[0] if f"{path}/".startswith(row.at.rstrip("/") + "/")]
    deepest = max((len(row.at) for row in found), default=0)
    return next((row for row in reversed(found) if len(row.at) == deepest), None)


def _plugins(ask: Ask, folder: str, names: Iterable[str]) -> Iterator[Facts]:
    """Return plugins of slurm.conf that slurmstepd or a user's srun cannot load."""
    for name in names:
        at = f"{folder}/{name}"
        try:
            here = places.status(ask.path(at), follow=True)
        except FileNotFoundError:
            # Plugins of the kind "none" are built in since Slurm 23.
            if not name.endswith("_none.so"):
                yield _one("plugin", at, "missing")
            continue
        except OSError:
            continue
        if not here.st_size:
            yield _one("plugin", at, "empty")
        elif not here.st_mode & stat.S_IROTH:
            yield _one("plugin", at, "closed")


def _denied(ask: Ask) -> Iterator[Facts]:
    """Return clients that hosts.deny(5) refuses for sshd and hosts.allow does not allow."""
    if any(_wrapped(line) for line in lines_of(files.text(ask.path(ALLOW)))):
        return
    for line in lines_of(files.text(ask.path(DENY))):
        for client in _wrapped(line)[:10]:
            yield _one("denied", DENY, client)


def _wrapped(line: str) -> list[str]:
    daemons, colon, rest = line.partition("#")[0].partition(":")
    clients = rest.partition(":")[0].replace(",", " ").split()
    return clients if colon and WRAPPED.intersection(daemons.replace(",", " ").split()) else []


def _user_limits(ask: Ask) -> Iterator[Facts]:
    for who, kind, name, value in USER_LIMIT.findall(files.text(ask.path(USER_LIMITS))):
        yield _one("user limit", USER_LIMITS, name, int(value), f"{who} {kind}")


def _startup(ask: Ask, startup: dict[str, str]) -> Iterator[Facts]:
    """Return what shells do at every login."""
    scripts = {at: text for at, text in startup.items() if at.startswith(PROFILES)}
    if not _parses(ask, "\n".join(scripts.values())):
        yield from (_one("login", at, "syntax") for at in scripts if not _parses(ask, scripts[at]))
    for at, text in startup.items():
        last = dict(ASSIGNED.findall(text))
        for name, value in last.items():
            if name == "PATH" and "$" not in value and IN_PATH.isdisjoint(value.split(":")):
                yield _one("login", at, name)
            elif name in TMP and value[:1] == "/" and "$" not in value and _lacks(ask, value):
                yield _one("login", at, name, of=value[:100])
        for line in DONE.findall(text):
            yield _one("login", at, " ".join(line.split()))
        for folder in ENTERED.findall(text):
            if _lacks(ask, folder):
                yield _one("login", at, "cd", of=folder)


def _parses(ask: Ask, text: str) -> bool:
    """Whether bash reads it to its end; nothing of it is run."""
    try:
        ask.run(["bash", "-n", "-c", text[:LONGEST_SCRIPT]], 2.0)
    except Unreadable as error:
        return "failed with 2" not in str(error)
    return True


def _lacks(ask: Ask, path: str) -> bool:
    try:
        places.status(ask.path(path), follow=True)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return False


def _processors(ask: Ask, accounts: Accounts, groups: list[str]) -> Iterator[Facts]:
    """Return by program and owner the average number of processors used since the start."""
    for group in groups:
        used = files.text(ask.path(f"{GROUPS}{group}/cpu.stat")).partition("\n")[0].split()
        if used[:1] != ["usage_usec"] or int(used[1]) < USED_S * 1e6:
            continue
        busy: dict[tuple[str, int], list[float]] = {}
        for pid in files.text(ask.path(f"{GROUPS}{group}/cgroup.procs")).split()[-MOST_PROCESSES:]:
            _, age, spent = _process(ask, pid)
            if age < STARTED_S:
                continue
            with suppress(OSError):
                key = (files.text(ask.path(f"/proc/{pid}/comm")), places.status(ask.path(f"/proc/{pid}")).st_uid)  # fmt: skip
                known = busy.setdefault(key, [0.0, 0.0])
                known[0] += spent / age
                known[1] += spent
        is_slurmd = group.endswith("/slurmd.service")
        for (program, uid), (cores, spent) in busy.items():
            # Without control groups jobs stay in the group of slurmd (ProctrackType=proctrack/linuxproc).
            if spent >= USED_S and cores >= LEAST_CORES and (not is_slurmd or program == "slurmd"):
                told = _one("processors", group, program, round(cores, 2), accounts.owner(uid))
                yield {**told, "waits": _waits(ask, group)}


def _waits(ask: Ask, group: str) -> float | None:
    """Return the share of the last minute, in percent, that processes of the group waited for a processor; None if the kernel has no figure."""
    found = PRESSURE.search(files.text(ask.path(f"{GROUPS}{group}/cpu.pressure")))
    return float(found[1]) if found else None
