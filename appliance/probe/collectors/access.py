"""What an ordinary user needs on the host: world-writable folders, device files, logins, homes, and munge."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import re
import stat
import threading
import time
from contextlib import suppress

from appliance.probe import files, places
from appliance.probe.accounts import Accounts
from appliance.probe.ask import Ask
from appliance.probe.collectors import obstacles
from appliance.probe.lines import lines_of
from appliance.probe.problems import Unreadable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from appliance.probe.ask import Facts

SHARED = ("/tmp", "/var/tmp", "/dev/shm")
ROOM = (*SHARED, "/run")
DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "ptmx", "fuse")
"""Below /dev; accessible to all users on every distribution."""
OF_GPUS = ("nvidia", "nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset")
OF_ADAPTERS = "/dev/infiniband"
READ_BY_ALL = (
    *("/", "/etc", "/usr", "/usr/bin", "/usr/lib", "/usr/sbin", "/var", "/var/lib", "/home", "/opt", "/run", "/dev", "/proc"),
    *("/etc/passwd", "/etc/group", "/etc/nsswitch.conf", "/etc/hosts", "/etc/resolv.conf", "/etc/ld.so.cache", "/etc/profile"),
    *("/etc/environment", "/etc/localtime", "/etc/ssl/certs", "/lib64/ld-linux-x86-64.so.2"),
    *(f"/usr/{at}/{name}.so.1" for at in ("lib/x86_64-linux-gnu", "lib64") for name in ("libcuda", "libnvidia-ml")),
)  # fmt: skip
"""Files that libc, shells and Slurm's commands read as any user."""
PROGRAMS = (
    *("bash", "sh", "env", "python3", "srun", "sbatch", "salloc", "squeue", "scancel", "sinfo", "munge", "nvidia-smi"),
    *("slurmstepd", "enroot", "sacct", "scontrol", "sattach", "sstat", "ssh", "scp", "sftp", "rsync", "git", "tar"),
)  # fmt: skip
"""Commands that jobs use, if installed."""
PROGRAM_FOLDERS = ("/usr/bin", "/usr/sbin")
SUDO = "/usr/bin/sudo"
BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
)
"""Bundles of certificate authorities that users' programs trust."""
LOOKED_UP = ("passwd", "group", "shadow")
LOCAL = frozenset({"files", "compat", "db"})
"""Sources of nsswitch.conf(5) that contain the site's accounts."""
PAM = "/etc/pam.d/"
SERVICES = ("sshd", "sudo", "login", "su")
"""Services with a stack of modules of their own (pam.conf(5))."""
PAM_ROW = re.compile(r"(-?)(auth|account|session)\s+(\[[^\]\n]{1,300}\]|\w+)\s+([\w./-]{1,100})")
INCLUDES = re.compile(r"@include\s+([\w.-]{1,100})")
MOST_PAM_ROWS = 200
PAM_MODULES = tuple(
    f"{at}/security/" for at in ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib")
)  # fmt: skip
SLURMD = "/sys/fs/cgroup/system.slice/slurmd.service/cgroup.procs"
LIMITS = re.compile(r"^Max (open files|locked memory) +\S+ +(\d+)", re.M)
"""Hard limits of a process that are not unlimited (proc(5))."""
SSHD_PIDS = ("/run/sshd.pid", "/run/sshd/sshd.pid")
STARTUPS = re.compile(r"\[listener\] (\d{1,6}) of (\d{1,6})-(\d{1,6}) startups")
"""Title of sshd's first process: logins in progress, and the numbers at which it refuses some and all."""
STARTUP_FILES = (
    "/etc/environment",
    "/etc/profile",
    "/etc/bash.bashrc",
    "/etc/bashrc",
    "/etc/security/pam_env.conf",
)
STARTUP_FOLDER = "/etc/profile.d"
MOST_STARTUP_FILES = 100
PROXY = re.compile(
    r"^\s*(?:export\s+)?((?:https?|all)_proxy)=[\"']?(?:https?://)?(?:[^@/\s]*@)?([\w.-]{1,253}):(\d{1,5})\b",
    re.M | re.I,
)
"""A proxy set for every login: its variable, host and port; never the password before them."""
MOST_PROXIES = 4
PROXY_PATIENCE = 1.5
"""Seconds for resolving the name and connecting."""
DECIDING = re.compile(
    r"^\s*(?:export\s+|setenv\s+)?(CUDA_VISIBLE_DEVICES|NVIDIA_VISIBLE_DEVICES|LD_PRELOAD|SLURM_CONF|CUDA_MPS_PIPE_DIRECTORY)(?:\s*=|\s)",
    re.M,
)
"""Variables that decide what every user's programs find or load."""
ENDS = re.compile(r"^(exit|logout|exec)\b", re.M)
"""An unconditional statement that ends every shell that reads the file."""
BOUND = re.compile(r"^\s*(ulimit(?: +-[HS]+)? +-[HS]*[vuntfdml]) +\d", re.M)
"""A limit of every login that is not raised afterwards."""
GROUPS = "/sys/fs/cgroup"
MOST_TAKEN = 20
CROWD = 1500
"""Number of tasks from which on a control group is examined."""
NEARLY = 0.8
OF_JOBS = ("slurmstepd", "job_", "kubepods", "containerd", "docker", "machine.slice", "crio")
DEPTH = 4
SAMPLE = 200
"""Number of processes of such a group whose names are read."""
MOST_CROWDS = 10
PARAMETERS = "/proc/driver/nvidia/params"
MODE = "DeviceFileMode:"
"""Mode of device files as the driver reports it (438: 0666)."""
NOLOGIN = ("/etc/nologin", "/run/nologin", "/var/run/nologin")
NOBODY = "65534"
MUNGE = ("/etc/munge/munge.key", "/run/munge/munged.pid")
PLAIN = ("--cipher=none", "--zip=none", "--mac=sha256")
"""Options of munge for a credential whose signature can be compared with the key."""
HEAD = 5
"""Bytes of a credential before its realm, whose length is the last of them (munge 0.5, version 3)."""
MAC = 32
MOST_KEY = 1 << 16
OF_OTHERS = frozenset({"of another account", "root's, and closed to the owner of its folder"})
LISTED = 2000
"""Number of entries of a full folder among which the largest is sought."""
PATIENCE = 2.0
"""Seconds for all homes together, which may be on a server that does not answer."""


def collect(ask: Ask) -> Facts:
    """The area ``access``."""
    accounts = Accounts(ask)
    spots = [*_folders(ask, accounts), *_devices(ask, accounts), *_common(ask, accounts)]
    startup = _startup_texts(ask)
    groups = list(_groups(ask, "", 0))
    found: Facts = {
        "spots": spots,
        "device_mode": _device_mode(ask),
        "nologin": sorted(at for at in NOLOGIN[:2] if files.exists(ask.path(at))),
        **_munge(ask, accounts),
        "munge_key_is_newer": _munge_key_is_newer(ask),
        "homes": _in_time(ask.people, accounts, lambda *one: _home(ask, accounts, *one)),
        "loose_keys": _in_time(ask.admins, accounts, lambda *one: _loose(ask, accounts, *one))
        or [],
        **_pam(ask),
        "closed_accounts": _closed_accounts(ask, accounts),
        "startups": _startups(ask),
        "variables": list(_variables(startup)),
        "proxies": _proxies(startup),
        "lookups": list(_lookups(ask)),
        "job_limits": _job_limits(ask),
        "crowds": list(_crowds(ask, accounts, groups))[:MOST_CROWDS],
        "taken": list(_taken(ask, accounts))[:MOST_TAKEN],
        "obstacles": obstacles.collect(ask, accounts, startup, groups),
    }
    return {"access": found}


def _folders(ask: Ask, accounts: Accounts) -> Iterator[Facts]:
    for at in ROOM:
        try:
            here = places.status(ask.path(at))
            room = os.statvfs(ask.path(at))
        except OSError:
            yield {"at": at, "kind": "missing", "mode": 0}
            continue
        kind = "folder" if stat.S_ISDIR(here.st_mode) else "other"
        # A folder of the root file system has that one's room, which the area "filesystems" tells.
        own = os.path.ismount(ask.path(at)) and room.f_blocks
        size = room.f_blocks * room.f_frsize if own else None
        free = room.f_bavail * room.f_frsize if own else None
        full = size is not None and free is not None and free * 10 < size
        yield {
            **_spot(at, kind if at in SHARED else "room", here, accounts),
            "closed_by": _closed_by(ask, at),
            "size": size,
            "free": free,
            "inodes_free": room.f_favail if own and room.f_files else None,
            "read_only": bool(room.f_flag & os.ST_RDONLY),
            "noexec": bool(room.f_flag & os.ST_NOEXEC),
            "largest": _largest(ask.path(at), at, accounts) if full and at in SHARED else "",
        }


def _spot(at: str, kind: str, here: os.stat_result, accounts: Accounts) -> Facts:
    return {
        "at": at,
        "kind": kind,
        "mode": stat.S_IMODE(here.st_mode),
        "owner": accounts.owner(here.st_uid),
        "group": accounts.group(here.st_gid),
    }


def _closed_by(ask: Ask, at: str) -> str:
    """Return the first directory of a path that others cannot enter."""
    way = ""
    for name in ["", *at.strip("/").split("/")[:-1]]:
        way = way.rstrip("/") + "/" + name
        try:
            if not places.status(ask.path(way), follow=True).st_mode & stat.S_IXOTH:
                return way
        except OSError:
            return ""
    return ""


def _largest(path: str, at: str, accounts: Accounts) -> str:
    """Largest entry of a full folder: size in bytes, owner and path, separated by spaces. No link is followed."""
    best = (0, "", 0)
    served = places.of_people()
    with os.scandir(path) as entries:
        for _, entry in zip(range(LISTED), entries):  # noqa: B905 - Python 3.10's
            if f"{at}/{entry.name}" in served:
                continue
            try:
                here = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            best = max(best, (here.st_blocks * 512, entry.name, here.st_uid))
    size, name, uid = best
    return f"{size} {accounts.owner(uid)} {at}/{name}" if name else ""


def _devices(ask: Ask, accounts: Accounts) -> Iterator[Facts]:
    names = files.names(ask.path("/dev"))
    wanted = [f"/dev/{name}" for name in names if name in DEVICES or _is_gpu(name)]
    for name in files.names(ask.path(OF_ADAPTERS)):
        if name.startswith("uverbs") or name == "rdma_cm":
            wanted.append(f"{OF_ADAPTERS}/{name}")
    for at in wanted:
        try:
            here = places.status(ask.path(at), follow=True)
        except OSError:
            continue
        kind = "gpu" if at.startswith("/dev/nvidia") else "device"
        node = kind if stat.S_ISCHR(here.st_mode) else "other"
        yield {**_spot(at, node, here, accounts), "closed_by": _closed_by(ask, at)}


def _common(ask: Ask, accounts: Accounts) -> Iterator[Facts]:
    """Files that every user reads or runs; reported only if they are not accessible to all, or empty."""
    for at in READ_BY_ALL:
        try:
            here = places.status(ask.path(at), follow=True)
        except OSError:
            continue
        wanted = stat.S_IXOTH if stat.S_ISDIR(here.st_mode) else stat.S_IROTH
        if not here.st_mode & wanted:
            yield _spot(at, "common", here, accounts)
    yield from _broken(ask, accounts)
    for name in PROGRAMS:
        for folder in PROGRAM_FOLDERS:
            at = f"{folder}/{name}"
            try:
                here = places.status(ask.path(at), follow=True)
            except OSError:
                continue
            open_to_all = here.st_mode & 0o005 == 0o005
            if not open_to_all or not here.st_size or not stat.S_ISREG(here.st_mode):
                kind = "program" if here.st_size else "empty"
                yield _spot(at, kind, here, accounts)


def _broken(ask: Ask, accounts: Accounts) -> Iterator[Facts]:
    """Return files that exist but do not work for users."""
    with suppress(OSError):
        here = places.status(ask.path(SUDO), follow=True)
        if here.st_uid or not here.st_mode & stat.S_ISUID:
            yield _spot(SUDO, "setuid", here, accounts)
    for at in BUNDLES:
        with suppress(OSError):
            here = places.status(ask.path(at), follow=True)
            if not here.st_size:
                yield _spot(at, "bundle", here, accounts)


def _startup_texts(ask: Ask) -> dict[str, str]:
    """Return startup files of shells by path."""
    names = [name for name in files.names(ask.path(STARTUP_FOLDER)) if name.endswith(".sh")]
    listed = [f"{STARTUP_FOLDER}/{name}" for name in sorted(names)[:MOST_STARTUP_FILES]]
    return {at: files.text(ask.path(at)) for at in (*STARTUP_FILES, *listed)}


def _variables(startup: dict[str, str]) -> Iterator[Facts]:
    for at, text in startup.items():
        said = [*DECIDING.findall(text), *ENDS.findall(text), *BOUND.findall(text)]
        for name in sorted(set(said)):
            yield {"at": at, "name": name}


def _proxies(startup: dict[str, str]) -> list[Facts]:
    """Return proxies set for every login that accept no connection."""
    found = [(at, *which) for at, text in startup.items() for which in PROXY.findall(text)]
    if not found:
        return []
    import socket

    answers: set[tuple[str, str]] = set()

    def call(server: tuple[str, str]) -> None:
        with suppress(OSError, OverflowError), socket.create_connection(server, PROXY_PATIENCE):
            answers.add(server)

    servers = sorted({(host, port) for _, _, host, port in found})[:MOST_PROXIES]
    callers = [threading.Thread(target=call, args=(one,), daemon=True) for one in servers]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(PROXY_PATIENCE)
    return [
        {"at": at, "name": name, "server": f"{host}:{port}"}
        for at, name, host, port in found
        if (host, port) in servers and (host, port) not in answers
    ]


def _lookups(ask: Ask) -> Iterator[Facts]:
    """Return databases of nsswitch.conf(5) that are not looked up in the host's own files."""
    for line in lines_of(files.text(ask.path("/etc/nsswitch.conf"))):
        name, _, said = line.partition("#")[0].partition(":")
        if name.strip() in LOOKED_UP and not LOCAL.intersection(said.split()):
            yield {"name": name.strip(), "says": " ".join(said.split())[:200]}


def _job_limits(ask: Ask) -> dict[str, int]:
    """Return the hard limits that jobs inherit from slurmd; empty if it does not run."""
    pid = files.text(ask.path(SLURMD)).partition("\n")[0]
    if not pid.isdigit():
        return {}
    found = LIMITS.findall(files.text(ask.path(f"/proc/{pid}/limits")))
    return {name: int(value) for name, value in found}


def _taken(ask: Ask, accounts: Accounts) -> Iterator[Facts]:
    """Uids and gids of the site that another local account or group has."""
    for kind, table in (("uid", accounts.users), ("gid", accounts.groups)):
        wanted = dict(one.partition(" ")[::2] for one in ask.numbers.get(kind, []))
        for name, row in table.items():
            if wanted.get(row[2], name) != name:
                yield {"kind": kind, "number": int(row[2]), "by": name, "wanted": wanted[row[2]]}


def _startups(ask: Ask) -> list[int] | None:
    """Concurrent unauthenticated logins, and sshd's limits for refusing some and all; None if unknown."""
    for at in SSHD_PIDS:
        pid = files.text(ask.path(at)).strip()
        if pid.isdigit():
            title = files.text(ask.path(f"/proc/{pid}/cmdline"))
            found = STARTUPS.search(title)
            return list(map(int, found.groups())) if found else None
    return None


def _crowds(ask: Ask, accounts: Accounts, groups: list[str]) -> Iterator[Facts]:
    """Control groups besides jobs and containers with very many processes and threads, or close to their limit."""
    for group in groups:
        now, most = _tasks(ask, group)
        is_many = now >= CROWD and not group.endswith(".slice")
        if is_many or (most is not None and now > most * NEARLY):
            yield {"group": group, "tasks": now, "most": most, **_who(ask, group, accounts)}


def _groups(ask: Ask, group: str, depth: int) -> Iterator[str]:
    for name in files.names(ask.path(GROUPS + group)):
        if not name.endswith((".slice", ".service", ".scope")) or any(w in name for w in OF_JOBS):
            continue
        yield f"{group}/{name}"
        if name.endswith(".slice") and depth < DEPTH:
            yield from _groups(ask, f"{group}/{name}", depth + 1)


def _tasks(ask: Ask, group: str) -> tuple[int, int | None]:
    """Processes and threads, and how many there may be; without the controller "pids" the processes."""
    now = files.text(ask.path(f"{GROUPS}{group}/pids.current")).strip()
    most = files.text(ask.path(f"{GROUPS}{group}/pids.max")).strip()
    if not now.isdigit():
        return files.text(ask.path(f"{GROUPS}{group}/cgroup.procs")).count("\n") + 1, None
    return int(now), int(most) if most.isdigit() else None


def _who(ask: Ask, group: str, accounts: Accounts) -> Facts:
    """The most frequent program of the group and its owner, by a sample."""
    found: dict[tuple[str, int], int] = {}
    for pid in files.text(ask.path(f"{GROUPS}{group}/cgroup.procs")).split()[-SAMPLE:]:
        try:
            owner = places.status(ask.path(f"/proc/{pid}")).st_uid
        except OSError:
            continue
        key = (files.text(ask.path(f"/proc/{pid}/comm")).strip(), owner)
        found[key] = found.get(key, 0) + 1
    if not found:
        return {"program": "", "owner": ""}
    program, uid = max(found, key=lambda key: found[key])
    return {"program": program, "owner": accounts.owner(uid)}


def _is_gpu(name: str) -> bool:
    return name in OF_GPUS[1:4] or (name.startswith(OF_GPUS[0]) and name[6:].isdigit())


def _device_mode(ask: Ask) -> int | None:
    """The driver's mode of its device files; None if unknown."""
    for line in files.text(ask.path(PARAMETERS)).split("\n"):
        if line.startswith(MODE) and line[len(MODE) :].strip().isdigit():
            return int(line[len(MODE) :])
    return None


def _munge(ask: Ask, accounts: Accounts) -> Facts:
    """munge's error for the user nobody; empty if it signs, None if it is not installed or cannot be tested."""
    if os.geteuid() or not ask.has("munge") or not ask.has("setpriv"):
        return {"munge": None}
    nobody = ["setpriv", "--reuid=" + NOBODY, "--regid=" + NOBODY, "--clear-groups"]
    try:
        credential = ask.run([*nobody, "munge", "--no-input", *PLAIN], 3.0)
    except Unreadable as error:
        return {"munge": str(error).rpartition("munge: ")[2].replace("setpriv", "munge")[:200]}
    try:
        owner = int(accounts.users["munge"][2])
        key = files.data(ask.path(MUNGE[0]), MOST_KEY, owner)
        return {"munge": "", "munge_uses_key": signed_with(credential, key)}
    except (OSError, KeyError, ValueError):
        return {"munge": ""}


def signed_with(credential: str, key: bytes) -> bool:
    """Whether munged made a PLAIN credential with this content of a key file. Raises ValueError if it is no credential."""
    _, _, rest = credential.strip().partition("MUNGE:")
    content = base64.b64decode(rest.partition(":")[0], validate=True)
    if len(content) <= HEAD + MAC or content[0] != 3:
        raise ValueError("no credential of munge 0.5")
    at = HEAD + content[HEAD - 1]
    # munged hashes the file with a digit behind it: one digit for signatures, another for ciphers.
    own = hashlib.sha1(key + b"2").digest()
    told = hmac.new(own, content[:at] + content[at + MAC :], "sha256").digest()
    return hmac.compare_digest(told, content[at : at + MAC])


def _munge_key_is_newer(ask: Ask) -> bool:
    """Whether the key was written after munged started, which reads it once."""
    try:
        written, started = (places.status(ask.path(at)).st_mtime for at in MUNGE)
    except OSError:
        return False
    return written > started + 1


def _in_time(
    names: list[str], accounts: Accounts, tell: Callable[[str, list[str]], Facts | None]
) -> list[Facts] | None:
    """What is wrong with each account's home; None where a file server keeps the answer back."""
    people = [(name, accounts.users[name]) for name in names if name in accounts.users]
    found: list[Facts] = []
    done: list[bool] = []

    def look() -> None:
        found.extend(filter(None, (tell(name, row) for name, row in people)))
        done.append(True)

    worker = threading.Thread(target=look, daemon=True)
    worker.start()
    worker.join(PATIENCE)
    return found if done else None


def _closed_accounts(ask: Ask, accounts: Accounts) -> list[Facts]:
    """Those of the site's users that PAM refuses; without root none is known."""
    day = int(time.time()) // 86400
    try:
        told = {name: accounts.closed(name, day) for name in ask.people if name in accounts.users}
    except OSError:
        return []
    return [{"user": name, "trouble": trouble} for name, trouble in told.items() if trouble]


def _home(ask: Ask, accounts: Accounts, name: str, row: list[str]) -> Facts | None:
    at, uid = row[5], int(row[2])
    try:
        here = places.status(ask.path(at))
    except FileNotFoundError:
        return {"user": name, "at": at, "trouble": "is not there"}
    except OSError as error:
        return {"user": name, "at": at, "trouble": str(error.strerror)}
    way = _closed_by(ask, at)
    if way:
        return {"user": name, "at": at, "trouble": f"cannot be reached: {way} is closed to users"}
    if stat.S_ISLNK(here.st_mode):
        return None  # whoever made the link knows where it leads
    if not stat.S_ISDIR(here.st_mode):
        return {"user": name, "at": at, "trouble": "is no folder"}
    if here.st_uid != uid:
        return {"user": name, "at": at, "trouble": f"belongs to {accounts.owner(here.st_uid)}"}
    if here.st_mode & stat.S_IRWXU != stat.S_IRWXU:
        return {"user": name, "at": at, "trouble": f"has mode {stat.S_IMODE(here.st_mode):04o}"}
    return None


def _loose(ask: Ask, accounts: Accounts, name: str, row: list[str]) -> Facts | None:
    """The first of home, .ssh and authorized_keys for which sshd refuses the keys (sshd_config(5), StrictModes)."""
    uid = int(row[2])
    for at in (row[5], row[5] + "/.ssh", row[5] + "/.ssh/authorized_keys"):
        trouble = ""
        try:
            here = places.status(ask.path(at), follow=True)
            if here.st_uid not in {0, uid}:
                trouble = f"belongs to {accounts.owner(here.st_uid)}"
            elif here.st_mode & 0o002 or (
                here.st_mode & 0o020 and not _is_private(ask, accounts, name, here.st_gid)
            ):
                trouble = f"has mode {stat.S_IMODE(here.st_mode):04o}"
        except places.Untrusted as error:
            if str(error.strerror) in OF_OTHERS:
                trouble = f"is {error.strerror}"
        except OSError:
            return None
        if trouble:
            return {"user": name, "at": at, "trouble": trouble}
    return None


def _is_private(ask: Ask, accounts: Accounts, name: str, gid: int) -> bool:
    """Whether the group has this member alone; only Debian's sshd accepts that its group may write."""
    primary = [user for user, row in accounts.users.items() if int(row[3]) == gid]
    row = accounts.groups.get(accounts.group(gid), ["", "", "", ""])
    members = {*primary, *filter(None, row[3].split(","))}
    return members == {name} and files.exists(ask.path("/etc/debian_version"))


def _pam(ask: Ask) -> Facts:
    """The lines that decide about logins, or why a part of them is not known."""
    try:
        rows = list(_pam_rows(ask))
    except OSError as error:
        return {"pam_unread": f"{error.filename or PAM}: {error.strerror}"}
    if not rows:
        return {"pam_unread": f"no line below {PAM} can be read"}
    if len(rows) > MOST_PAM_ROWS:
        return {"pam_unread": f"{len(rows)} lines decide; {MOST_PAM_ROWS} are read at most"}
    return {"pam": rows}


def _pam_rows(ask: Ask) -> Iterator[Facts]:
    """Those of the services, and of the files that they include."""
    found = [files.names(ask.path(at)) for at in PAM_MODULES]
    modules = {name for names in found for name in names if name.endswith(".so")}
    wanted = list(SERVICES)
    for name in wanted:
        text = ""
        with suppress(FileNotFoundError):
            text = files.read(ask.path(PAM + name))
        for number, line in enumerate(lines_of(text), 1):
            whole = INCLUDES.match(line)
            part = PAM_ROW.match(line)
            if whole:
                rows = [(kind, "include", whole[1]) for kind in ("auth", "account", "session")]
            elif part:
                rows = [(part[2], part[3], part[4])]
            else:
                continue
            for kind, control, module in rows:
                said: Facts = {"at": f"{name}:{number}", "type": kind, "control": control}
                if control in {"include", "substack"}:
                    wanted += [module] if module not in wanted else []
                elif modules and "/" not in module and module not in modules:
                    if part and part[1]:
                        continue  # pam.conf(5): a line that begins with "-" is skipped then
                    said["missing"] = True
                yield {**said, "module": module}
