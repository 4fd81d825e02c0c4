"""What keeps users from work though no file of a stage has changed, each with the command that ends it."""

import ipaddress
import re
import shlex
from collections.abc import Callable, Iterator

from appliance.checks.check import View, failed, not_assessed, warned
from appliance.models.facts import HostFacts
from appliance.models.facts_host import Access, Obstacle
from appliance.models.result import Judgement, place
from appliance.models.site import Host, Role
from appliance.text import plural

NAME = re.compile(r"[\w@*.+:-]{1,64}", re.ASCII)
"""Text of a host that is safe in a command."""
LONGEST_LOCK_S = 4 * 3600.0
STOPPED = "T"
LEAST_PORTS = 1000
LEAST_PROCESSES, LEAST_FILES = 1000, 1024
SHARE = 0.25
"""Share of a host's processors used by processes outside jobs."""
LEAST_SHARE, WAITS_PERCENT = 0.1, 40.0
"""The same if other processes compete: it uses less than it would."""
SLOWEST_LOGIN_S = 3
OWN = "own choice"
LEAST_SPOOL = 16 << 20
MIB_100 = 100_000
"""KiB, the unit of limits.conf(5)."""
MOST_NAMED = 5
Each = Iterator[Judgement]


def judge_obstacles(view: View, host: Host, facts: HostFacts, access: Access) -> Each:
    """Judge all obstacles that the host reports."""
    by_kind: dict[str, list[Obstacle]] = {}
    for one in access.obstacles:
        by_kind.setdefault(one.kind, []).append(one)
    yield from _packages(host, by_kind.get("package", []), by_kind.get("package journal", []))
    yield from _file_systems(host, access)
    for kind, judge in JUDGES.items():
        for one in by_kind.get(kind, []):
            yield from judge(host, facts, one)
    yield from _denied(view, host, by_kind.get("denied", []))
    if facts.lease is None and Role.GPU in host.roles:
        yield from _processors(host, facts, by_kind.get("processors", []))


def _unread(host: Host, facts: HostFacts, one: Obstacle) -> Each:
    del facts
    yield not_assessed(place(host.name, one.at), f"{one.at} could not be examined: {one.says}")


def _packages(host: Host, found: list[Obstacle], journal: list[Obstacle]) -> Each:
    if not found and not journal:
        return
    names = [one.at for one in found if NAME.fullmatch(one.at)]
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    left = ", ".join(f"{one.at} is {one.says}" for one in found[:MOST_NAMED])
    lost = [one.at for one in found if one.says == "half-installed" and NAME.fullmatch(one.at)]
    again = f"; apt-get install --reinstall -y {' '.join(lost)}" if lost else ""
    yield failed(
        place(host.name, "dpkg"),
        f"the package manager was interrupted: {left + more or 'its journal is not empty'}; it installs and removes nothing until that is completed",
        f"on {host.name}: dpkg --configure -a{again}",
        value=len(found),
        unit="packages",
        limit=0,
        limit_source="dpkg --audit",
        names=tuple(names),
    )


def _package_lock(host: Host, facts: HostFacts, one: Obstacle) -> Each:
    """Judge the lock of the package manager: a run takes minutes, a release upgrade an hour."""
    del facts
    is_stopped = one.says == STOPPED
    if not is_stopped and (one.value or 0) < LONGEST_LOCK_S:
        return
    since = (
        "is stopped by a signal" if is_stopped else f"has run for {(one.value or 0) / 3600:.0f} h"
    )
    yield warned(
        place(host.name, "dpkg"),
        f"{one.at or 'a program'} (process {one.process}) holds the lock of the package manager and {since}: nothing can be installed",
        f"on {host.name}: ps -fp {one.process} shows it; if no one needs it: kill -KILL {one.process}; sleep 1; dpkg --configure -a",
        value=one.at,
        evidence="the lock of /var/lib/dpkg",
    )


def _file_systems(host: Host, access: Access) -> Each:
    for spot in access.spots:
        if spot.at not in {"/tmp", "/var/tmp", "/dev/shm"} or spot.kind != "folder":
            continue
        wrong = "ro" if spot.read_only else "noexec" if spot.noexec else ""
        # The strict hardening of the stage mounts /dev/shm so.
        if not wrong or (wrong == "noexec" and spot.at == "/dev/shm"):
            continue
        what = "is read-only: users cannot write there"
        if wrong == "noexec":
            what = (
                "runs no programs (noexec): compilers of Triton, PyTorch and pip start theirs there"
            )
        right = "rw" if wrong == "ro" else "exec"
        yield (failed if wrong == "ro" else warned)(
            place(host.name, spot.at.removeprefix("/")),
            f"{spot.at} {what}",
            f"on {host.name}: mount -o remount,{right} $(findmnt -n -o TARGET -T {spot.at}); then the file that sets it at boot",
            value=wrong,
            limit=right,
            evidence="mount options",
        )


def _limit(host: Host, facts: HostFacts, one: Obstacle) -> Each:
    value = int(one.value or 0)
    least = {"processes": LEAST_PROCESSES, "open files": LEAST_FILES}.get(one.says)
    is_files_of_slurmd = one.at == "slurmd" and one.says == "open files"
    if one.at not in {"sshd", "slurmd"} or is_files_of_slurmd or (least and value >= least):
        return
    unit = _unit(one.at, facts)
    yield failed(
        place(host.name, one.at, one.says),
        f"{one.at} runs with a limit of {value} for {one.says}, which {_heirs(one.at)} inherit",
        f"on {host.name}: systemctl restart {unit}, which applies the limits of its unit",
        value=value,
        limit=least or "unlimited",
        limit_source=OWN if least else "systemd's default",
        evidence=f"/proc/PID/limits of {one.at}",
    )


def _priority(host: Host, facts: HostFacts, one: Obstacle) -> Each:
    value = int(one.value or 0)
    if one.at not in {"sshd", "slurmd"} or value < 1:
        return
    yield failed(
        place(host.name, one.at, "priority"),
        f"{one.at} has a nice value that is {value} above that of other services, and {_heirs(one.at)} inherit it: every other process runs first",
        f"on {host.name}: systemctl restart {_unit(one.at, facts)}; running logins and jobs keep it until they end",
        value=value,
        limit=0,
        limit_source="the value of the host's first process",
    )


def _affinity(host: Host, facts: HostFacts, one: Obstacle) -> Each:
    count = plural(int(one.value or 0), "processor")
    yield failed(
        place(host.name, "sshd", "processors"),
        f"sshd may use {count} of {one.says}, and so may every login",
        f"on {host.name}: systemctl restart {_unit('sshd', facts)}; users log in again",
        value=int(one.value or 0),
        unit="processors",
        limit=one.says,
        limit_source="those of the host's first process",
        evidence="Cpus_allowed of sshd",
    )


def _heirs(daemon: str) -> str:
    return "logins" if daemon == "sshd" else "jobs"


def _unit(daemon: str, facts: HostFacts) -> str:
    is_debian = facts.os.id in {"debian", "ubuntu"} or "debian" in facts.os.like
    return "ssh" if daemon == "sshd" and is_debian else daemon


def _loopback(host: Host, facts: HostFacts, one: Obstacle) -> Each:
    del facts, one
    yield failed(
        place(host.name, "lo"),
        "the loopback interface lo is down: programs of one host cannot reach each other (chronyc, MPI, notebooks)",
        f"on {host.name}: ip link set lo up",
        value="down",
        limit="up",
    )


def _ports(host: Host, facts: HostFacts, one: Obstacle) -> Each:
    del facts
    count = int(one.value or 0)
    if count >= LEAST_PORTS:
        return
    yield failed(
        place(host.name, "ports"),
        f"programs have {count} ports for connections ({one.says}): when these are in use, every new connection fails",
        f"on {host.name}: sysctl -w net.ipv4.ip_local_port_range='32768 60999'; grep -rs ip_local_port_range /etc/sysctl.d /etc/sysctl.conf shows the file that sets it",
        value=count,
        unit="ports",
        limit=LEAST_PORTS,
        limit_source=f"{OWN}; the kernel's default is 28,232",
    )


def _rule(host: Host, facts: HostFacts, one: Obstacle) -> Each:
    del facts
    priority = int(one.value or 0)
    family = "-6 " if one.at == "IPv6" else ""
    whose = f" of uid {one.of}" if one.of else ""
    yield failed(
        place(host.name, f"rule {priority}"),
        f"a rule of {one.at} routing ({one.says}, priority {priority}) refuses packets{whose}",
        f"on {host.name}: ip {family}rule show; ip {family}rule del prio {priority}",
        value=one.says,
        evidence="ip rule show",
    )


def _read_only(host: Host, facts: HostFacts, one: Obstacle) -> Each:
    del facts
    at = shlex.quote(one.at)
    effect = "no job starts" if one.says == "slurmd" else "slurmctld loses its queue"
    yield failed(
        place(host.name, one.at.removeprefix("/")),
        f"{one.at} of {one.says} is read-only: {effect}",
        f"on {host.name}: mount -o remount,rw $(findmnt -n -o TARGET -T {at}); if that fails, dmesg shows the disk's errors",
        value="read-only",
        limit="writable",
    )


def _spool(host: Host, facts: HostFacts, one: Obstacle) -> Each:
    """Bytes that are left, or inodes where these are fewer. Each job puts its script and its credentials there."""
    del facts
    free = int(one.value or 0)
    if free >= LEAST_SPOOL:
        return
    at = shlex.quote(one.at)
    effect = "no job starts" if one.says == "slurmd" else "slurmctld loses its queue"
    yield failed(
        place(host.name, one.at.removeprefix("/")),
        f"{one.at} of {one.says} has {free >> 10} KiB left: {effect}",
        f"on {host.name}: findmnt -T {at}; du -xah {at} | sort -h | tail; if a file system was mounted there by mistake: umount {at}; "
        f"systemctl restart {one.says}; otherwise remove what is not of {one.says}",
        value=free >> 10,
        unit="KiB",
        limit=LEAST_SPOOL >> 10,
        limit_source=OWN,
    )


def _owner(host: Host, facts: HostFacts, one: Obstacle) -> Each:
    del facts
    user, _, unit = one.of.partition(" ")
    if not NAME.fullmatch(user) or not NAME.fullmatch(unit):
        return
    effect = {"slurmctld": "batch jobs are refused"}.get(unit, f"{unit} does not start")
    at = shlex.quote(one.at)
    yield failed(
        place(host.name, one.at.removeprefix("/")),
        f"{one.says} does not belong to {user}: {effect}",
        f"on {host.name}: chown -R {user}: {at}; systemctl reset-failed {unit}; systemctl restart {unit}",
        value=one.says,
        limit=user,
        names=(unit,),
    )


def _plugin(host: Host, facts: HostFacts, one: Obstacle) -> Each:
    at = shlex.quote(one.at)
    is_debian = facts.os.id in {"debian", "ubuntu"} or "debian" in facts.os.like
    fix = (
        f"apt-get install --reinstall -y $(dpkg-query -S {at} | cut -d: -f1)"
        if is_debian
        else f"dnf reinstall -y $(rpm -qf {at})"
    )
    what = {"missing": "does not exist", "empty": "is empty"}.get(
        one.says, "cannot be read by users"
    )
    if one.says == "closed":
        fix = f"chmod 0644 {at}"
    yield failed(
        place(host.name, one.at.removeprefix("/")),
        f"{one.at} {what}: Slurm loads it for each job, and for each command of users",
        f"on {host.name}: {fix}",
        value=one.says,
        limit="a file that all can read",
    )


def _user_limit(host: Host, facts: HostFacts, one: Obstacle) -> Each:
    del facts
    value = int(one.value or 0)
    least = {"nproc": LEAST_PROCESSES, "nofile": LEAST_FILES, "maxlogins": 1, "as": MIB_100 * 10, "data": MIB_100 * 10}  # fmt: skip
    who, _, kind = one.of.partition(" ")
    if value >= least.get(one.says, value + 1) or not NAME.fullmatch(who) or who == "root":
        return
    pattern = rf"^\s*{re.escape(who)}\s+{kind}\s+{one.says}\s"
    yield failed(
        place(host.name, one.at.removeprefix("/"), f"{who} {one.says}"),
        f"{one.at} limits {one.says} of {'every user' if who == '*' else who} to {value}",
        f"on {host.name}: sed -i -E {shlex.quote(f'/{pattern}/d')} {one.at}; users log in again",
        value=value,
        limit=least.get(one.says, "unlimited"),
        limit_source=OWN,
    )


def _login(host: Host, facts: HostFacts, one: Obstacle) -> Each:
    """Judge a line of a file that shells read at every login."""
    word, _, argument = one.says.partition(" ")
    if word == "syntax":
        yield _unparsed(host, facts, one)
        return
    told = {
        "PATH": ("sets PATH without /usr/bin: users' shells find no command", r"^(export\s+)?PATH="),
        "umask": (f"sets umask {argument}: users cannot read or write the files that they create", r"^umask\s"),
        "sleep": (f"waits {argument} s at every login", r"^sleep\s"),
        "set": (f"has set {argument}, which ends a login at the first command that fails", r"^set\s+-[a-z]*e"),
        "cd": (f"ends every login, because {one.of} does not exist", r"^cd\s.*(exit|logout)"),
    }  # fmt: skip
    for name in ("TMPDIR", "TMP", "TEMP"):
        told[name] = (f"sets {name} to {one.of}, which does not exist: programs fail to create temporary files", rf"^(export\s+)?{name}=")  # fmt: skip
    if word not in told or (word == "sleep" and int(argument) < SLOWEST_LOGIN_S):
        return
    what, pattern = told[word]
    yield (warned if word == "sleep" else failed)(
        place(host.name, one.at.removeprefix("/"), word),
        f"{one.at} {what}",
        f"on {host.name}: sed -i -E '/{pattern}/d' {shlex.quote(one.at)}; users log in again",
        value=one.says,
    )


def _unparsed(host: Host, facts: HostFacts, one: Obstacle) -> Judgement:
    at = shlex.quote(one.at)
    is_debian = facts.os.id in {"debian", "ubuntu"} or "debian" in facts.os.like
    fix = f"mv {at} {at}.broken, so that it is not read"
    if one.at == "/etc/profile" and is_debian:
        fix = "cp /usr/share/base-files/profile /etc/profile"
    return failed(
        place(host.name, one.at.removeprefix("/"), "syntax"),
        f"{one.at} has a syntax error: no login reads it to its end",
        f"on {host.name}: bash -n {at} names the line; correct it, or {fix}",
        value="syntax error",
        evidence="bash -n",
    )


def _denied(view: View, host: Host, found: list[Obstacle]) -> Each:
    hosts = [(one.name, str(one.address)) for one in view.site.hosts]
    for one in found:
        client = one.says
        if client != "ALL" and not any(client == name or _covers(client, at) for name, at in hosts):
            continue
        line = rf"/^(sshd|ALL)\s*:.*{re.escape(client)}/d"
        yield failed(
            place(host.name, one.at.removeprefix("/")),
            f"{one.at} refuses ssh from {'every host' if client == 'ALL' else client}",
            f"on {host.name}: sed -i -E {shlex.quote(line)} {one.at}",
            value=client,
            evidence="hosts_access(5)",
        )


def _covers(client: str, address: str) -> bool:
    """Return whether a pattern of hosts_access(5) matches this address."""
    if client.endswith("."):
        return address.startswith(client)
    try:
        return ipaddress.ip_address(address) in ipaddress.ip_network(client, strict=False)
    except ValueError:
        return False


def _processors(host: Host, facts: HostFacts, found: list[Obstacle]) -> Each:
    """Judge programs outside jobs by the processor use of all their processes."""
    every = facts.cpu.threads
    for one in found:
        cores = one.value or 0
        is_held_back = one.waits is not None and one.waits >= WAITS_PERCENT
        least = LEAST_SHARE if is_held_back else SHARE
        if not every or cores < every * least:
            continue
        more = f", and waits for more in {one.waits:.0f} % of the time" if is_held_back else ""
        group = one.at.rpartition("/")[2]
        fix = f"on {host.name}: systemd-cgls -u {shlex.quote(group)} shows the processes; systemctl stop {shlex.quote(group)} ends them"
        if NAME.fullmatch(one.says) and NAME.fullmatch(one.of) and one.of != "root":
            fix = f"on {host.name}: ps -u {one.of} -o pid,etime,time,args shows the processes; if no one needs them: pkill -u {one.of} -x {one.says}"
        yield warned(
            place(host.name, group, one.says),
            f"{one.says} of {one.of} uses {cores:.1f} of {every} processors outside jobs{more}, in {one.at}: jobs on this host run slower",
            fix,
            value=cores,
            unit="processors",
            limit=every * least,
            limit_source=f"{OWN}: a quarter of the host's, or a tenth if processes wait for more",
            evidence="cgroup.procs and /proc/PID/stat, since each process started",
        )


JUDGES: dict[str, Callable[[Host, HostFacts, Obstacle], Each]] = {
    "unread": _unread,
    "package lock": _package_lock,
    "limit": _limit,
    "priority": _priority,
    "affinity": _affinity,
    "loopback": _loopback,
    "ports": _ports,
    "rule": _rule,
    "read-only": _read_only,
    "owner": _owner,
    "room": _spool,
    "plugin": _plugin,
    "user limit": _user_limit,
    "login": _login,
}
