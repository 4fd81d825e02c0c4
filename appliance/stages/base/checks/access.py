"""Checks whether an ordinary user can work on the host: shared folders, device files, homes, logins."""

import re
import shlex
from collections.abc import Iterable, Iterator

from appliance.checks.check import View, failed, not_assessed, passed, warned
from appliance.models.facts import HostFacts
from appliance.models.facts_host import Access, ClosedAccount, Home, Spot, TakenNumber
from appliance.models.result import Judgement, Kind, place
from appliance.models.site import Host, Role
from appliance.probe.accounts import EXPIRED
from appliance.stages.base import ids
from appliance.stages.base.checks.obstacles import NAME, judge_obstacles
from appliance.stages.base.checks.pam import judge_pam
from appliance.text import plural, quoted

OPEN = 0o1777
ALL_RW, GROUP_RW = 0o006, 0o060
USUAL = 0o666
"""Mode of the driver's device files unless NVreg_DeviceFileMode is set."""
NUMBERS = {
    **{"/dev/null": "1 3", "/dev/zero": "1 5", "/dev/full": "1 7", "/dev/random": "1 8"},
    **{"/dev/urandom": "1 9", "/dev/tty": "5 0", "/dev/ptmx": "5 2"},
}
"""Major and minor numbers of device files (Linux, Documentation/admin-guide/devices.txt)."""
FAIL_PERCENT, WARN_PERCENT = 5.0, 10.0
LEAST_INODES = 100
SOURCE = "own choice, equal to base.disk"
MIB = 1 << 20
LEAST_SIZE = 60 * MIB
MAJOR = 195
"""Major number of the device files of NVIDIA's driver."""
CONTROL, CONTROL_MINOR = "/dev/nvidiactl", 255
STARTED = 10
"""Concurrent unauthenticated logins from which OpenSSH's default of MaxStartups starts to refuse."""
CROWD = 2000
FILES, LEAST_FILES = "open files", 4096
"""Minimum limit of open files for services (systemd's DefaultLimitNOFILE is 524,288)."""
ENDING = frozenset({"exit", "logout", "exec"})
LIMITING = re.compile(r"ulimit( +-[HS]+)? +-[HSvuntfdml]+")
MOST_PEOPLE = 5
"""Maximum number of users named one by one."""
GROUPS = "/sys/fs/cgroup"
SOURCE_OF_CROWDS = (
    "own choice: far above what daemons and sessions use, below the number at which fork fails"
)
PROGRAM = re.compile(r"[A-Za-z0-9_][\w.+-]{0,31}", re.ASCII)


def judge_access(view: View, host: Host, facts: HostFacts) -> Iterable[Judgement]:
    """Return a result for each obstacle to users' work."""
    access = facts.access
    if access is None:
        return [not_assessed(host.name, facts.gap("access"))]
    least, source = view.number(ids.ACCESS) or (FAIL_PERCENT, SOURCE)
    found = [*_folders(host, access, least, source), *_devices(host, access)]
    found += _missing(host, facts, access)
    found += [_nologin(host, at) for at in access.nologin]
    found += [*_common(host, access), *_logins(host, access), *_crowds(host, access)]
    found += [*_variables(host, access), *_printed(host, facts)]
    found += [_loose(host, one) for one in access.loose_keys]
    found += judge_pam(host, facts, access)
    found += judge_obstacles(view, host, facts, access)
    found += [_closed_account(host, one) for one in access.closed_accounts[:MOST_PEOPLE]]
    found += [_taken(host, one) for one in access.taken[:MOST_PEOPLE] if NAME.fullmatch(one.by)]
    found += [*_lookups(host, access), *_proxies(host, access), *_job_limits(host, facts, access)]
    found += _homes(view, host, facts, access)
    if any(one.status.value != "not_assessed" for one in found):
        return found
    return found or [passed(host.name, len(access.spots), unit="folders and devices")]


def _folders(host: Host, access: Access, least: float, source: str) -> Iterator[Judgement]:
    for spot in access.spots:
        at = place(host.name, spot.at.removeprefix("/"))
        if spot.kind == "missing":
            yield failed(
                at, f"{spot.at} does not exist", f"on {host.name}: mkdir -m 1777 {spot.at}"
            )
        elif spot.kind == "other":
            cause = f"{spot.at} must be a directory or a device file"
            number = NUMBERS.get(spot.at)
            fix = f"on {host.name}: ls -l {spot.at}; a reboot restores device files"
            if number:
                fix = f"on {host.name}: rm -f {spot.at}; mknod -m 0666 {spot.at} c {number}"
            yield failed(at, cause, fix)
        elif spot.kind == "folder" and (spot.closed_by or spot.mode & OPEN != OPEN):
            yield _closed(host, spot)
        if spot.kind in {"folder", "room"}:
            yield from _room(host, spot, least, source)


def _closed(host: Host, spot: Spot) -> Judgement:
    at = place(host.name, spot.at.removeprefix("/"))
    if spot.closed_by:
        cause = f"{spot.at} cannot be reached by users: {spot.closed_by} denies access to users"
        return failed(at, cause, f"on {host.name}: chmod o+x {spot.closed_by}")
    return failed(
        at,
        f"{spot.at} has mode {spot.mode:04o}: users cannot write there"
        if not spot.mode & 0o002
        else f"{spot.at} has mode {spot.mode:04o}: users can remove each other's files",
        f"on {host.name}: chmod 1777 {spot.at}",
        value=f"{spot.mode:04o}",
        limit=f"{OPEN:04o}",
    )


def _room(host: Host, spot: Spot, least: float, source: str) -> Iterator[Judgement]:
    if not spot.size or spot.free is None:
        return
    if spot.kind == "folder" and spot.size < LEAST_SIZE:
        yield failed(
            place(host.name, spot.at.removeprefix("/")),
            f"{spot.at} is a file system of {spot.size // MIB} MiB only: programs that put data there fail",
            f"on {host.name}: findmnt {spot.at} shows what is mounted there; if it should not be mounted: umount {spot.at}; for a tmpfs: mount -o remount,size=50% {spot.at}",
            value=spot.size // MIB,
            unit="MiB",
            limit=LEAST_SIZE // MIB,
            limit_source=SOURCE,
        )
        return
    percent = round(100 * spot.free / spot.size, 1)
    none = spot.inodes_free is not None and spot.inodes_free < LEAST_INODES
    if percent >= max(least, WARN_PERCENT) and not none:
        return
    what = "no inodes" if none else f"{percent:g} % of {spot.size // MIB} MiB"
    big = spot.largest.split(" ", 2)
    who = ""
    fix = (
        f"on {host.name}: du -xah {spot.at} | sort -h | tail; remove files that no running job uses"
    )
    if len(big) == 3 and big[0].isdigit() and not none:
        path = shlex.quote(big[2])
        who = f"; {big[2]} of {big[1]} takes {int(big[0]) // MIB} MiB"
        fix = f"on {host.name}: fuser -v {path}; if no process uses it: rm -r {path}"
    judged = failed if none or percent < least else warned
    yield judged(
        place(host.name, spot.at.removeprefix("/")),
        f"{spot.at} has {what} left{who}",
        fix,
        value=percent,
        unit="% free",
        limit=least,
        limit_source=source,
    )


def _devices(host: Host, access: Access) -> Iterator[Judgement]:
    """Merge equal faults into one result: eight GPUs have the same mode for one reason."""
    alike: dict[tuple[str, int, str, str], list[str]] = {}
    wanted = USUAL if access.device_mode is None else access.device_mode
    for spot in access.spots:
        if spot.kind == "gpu" and (spot.closed_by or spot.mode & wanted != wanted):
            alike.setdefault(("gpu", spot.mode, spot.group, spot.closed_by), []).append(spot.at)
        if spot.kind == "device" and (spot.closed_by or not _is_open(spot)):
            alike.setdefault(("device", spot.mode, spot.group, spot.closed_by), []).append(spot.at)
    for (kind, mode, _, closed_by), nodes in alike.items():
        more = f" and {len(nodes) - 1} more" if len(nodes) > 1 else ""
        right = wanted if kind == "gpu" else USUAL
        what = "GPUs" if kind == "gpu" else "this device"
        cause = f"{nodes[0]}{more}: mode {mode:04o}, so that users' programs cannot open {what}"
        fix = f"on {host.name}: chmod {right:04o} {' '.join(nodes)}"
        if closed_by:
            cause = f"{nodes[0]}{more}: {closed_by} denies access to users"
            fix = f"on {host.name}: chmod o+x {closed_by}"
        yield failed(
            place(host.name, nodes[0].removeprefix("/")),
            cause,
            fix,
            value=f"{mode:04o}",
            limit=f"{right:04o}",
            limit_source="DeviceFileMode of the driver" if kind == "gpu" else "the distribution",
            names=tuple(nodes),
        )


def _missing(host: Host, facts: HostFacts, access: Access) -> Iterator[Judgement]:
    """Return device files that GPUs of the driver lack; slurmd exits without those in gres.conf."""
    devices = facts.gpus.devices if facts.gpus else ()
    there = {spot.at for spot in access.spots if spot.at.removeprefix("/dev/nvidia").isdigit()}
    if not there:
        return  # without all of them the driver answers nothing, as gpu.driver says
    if devices and CONTROL not in {spot.at for spot in access.spots}:
        yield failed(
            place(host.name, CONTROL.removeprefix("/")),
            f"{CONTROL} is missing: no program of users can use a GPU",
            f"on {host.name}: mknod -m 0666 {CONTROL} c {MAJOR} {CONTROL_MINOR}",
            limit="the device file of the driver",
            limit_source="Linux, Documentation/admin-guide/devices.txt",
            names=(CONTROL,),
        )
    for minor in sorted(gpu.minor for gpu in devices if gpu.minor is not None):
        at = f"/dev/nvidia{minor}"
        if at not in there:
            yield failed(
                place(host.name, at.removeprefix("/")),
                f"{at} is missing, but the driver has its GPU: no program can use it",
                f"on {host.name}: mknod -m 0666 {at} c {MAJOR} {minor}",
                limit="a device file for each GPU",
                limit_source="Linux, Documentation/admin-guide/devices.txt",
                names=(at,),
            )


def _is_open(spot: Spot) -> bool:
    """Return whether all users or a chosen group have access."""
    if spot.mode & ALL_RW == ALL_RW:
        return True
    return spot.mode & GROUP_RW == GROUP_RW and spot.group != "root"


def _common(host: Host, access: Access) -> Iterator[Judgement]:
    for spot in access.spots:
        at = place(host.name, spot.at.removeprefix("/") or "root folder")
        path = shlex.quote(spot.at)
        if spot.kind == "common":
            cause = f"{spot.at} has mode {spot.mode:04o}: users' programs cannot read it"
            yield failed(at, cause, f"on {host.name}: chmod o+rX {path}")
        elif spot.kind == "program":
            cause = f"{spot.at} has mode {spot.mode:04o}: users cannot run it"
            yield failed(at, cause, f"on {host.name}: chmod 0755 {path}")
        elif spot.kind == "bundle":
            cause = f"{spot.at} is empty: programs trust no certificate, and each download by https fails"
            update = (
                "update-ca-trust"
                if spot.at.startswith("/etc/pki/")
                else "update-ca-certificates --fresh"
            )
            yield failed(at, cause, f"on {host.name}: {update}")
        elif spot.kind == "setuid":
            cause = f"{spot.at} is not setuid root (owner {spot.owner}, mode {spot.mode:04o}): admins cannot become root"
            yield failed(at, cause, f"on {host.name}: chown root: {path}; chmod 4755 {path}")
        elif spot.kind == "empty":
            cause = f"{spot.at} is empty: programs that need it cannot run"
            fix = (
                f"on {host.name}: apt-get install --reinstall $(dpkg-query -S {path} | cut -d: -f1)"
            )
            yield failed(at, cause, fix)


def _printed(host: Host, facts: HostFacts) -> Iterator[Judgement]:
    """Report output of login scripts: this program ignores it, but few others do."""
    if facts.printed:
        yield warned(
            place(host.name, "login"),
            f"a login script prints {facts.printed} without a terminal: scp, sftp and rsync fail",
            f"on {host.name}: sed -i '1i [ -z \"$PS1\" ] && return' ~/.bashrc; if it still prints, check the other startup files of the shell",
            value="prints",
        )


def _variables(host: Host, access: Access) -> Iterator[Judgement]:
    for one in access.variables:
        name, at = one.name, shlex.quote(one.at)
        what = f"sets {name} for every login: programs use this value instead of the value of their job"
        if name in ENDING:
            what = f"has the line {name}, which ends every login"
        elif LIMITING.fullmatch(name):
            what = f"has {name}, which limits every login and the jobs that are submitted from it"
        elif not PROGRAM.fullmatch(name):
            continue
        line = f"^\\s*{name}" if name in ENDING or " " in name else name
        yield failed(
            place(host.name, one.at.removeprefix("/"), name),
            f"{one.at} {what}",
            f"on {host.name}: sed -i '/{line}/d' {at}; users who are logged in must log in again",
            value=name,
        )


def _proxies(host: Host, access: Access) -> Iterator[Judgement]:
    for one in access.proxies:
        if not PROGRAM.fullmatch(one.name):
            continue
        yield failed(
            place(host.name, one.at.removeprefix("/"), one.name),
            f"{one.at} sets {one.name} for every login to {one.server}, which takes no connection: users' downloads fail",
            f"start the proxy, or on {host.name}: sed -i '/{one.name}=/d' {shlex.quote(one.at)}; logged-in users must log in again",
            value=one.server,
            limit="a connection within 1.5 s",
        )


def _lookups(host: Host, access: Access) -> Iterator[Judgement]:
    for one in access.lookups:
        yield failed(
            place(host.name, "nsswitch.conf", one.name),
            f"/etc/nsswitch.conf looks up {one.name} in {quoted(one.says)}, and not in files: the accounts and groups of the site do not count",
            f"on {host.name}: sed -i 's/^{one.name}:/& files/' /etc/nsswitch.conf",
            value=one.says,
            limit="files",
        )


def _job_limits(host: Host, facts: HostFacts, access: Access) -> Iterator[Judgement]:
    """Judge the hard limits of jobs. In a container, root cannot exceed those of its machine."""
    for name, value in access.job_limits.items():
        least = LEAST_FILES if name == FILES else None
        if (value >= least) if least else facts.os.container:
            continue
        yield failed(
            place(host.name, "slurmd", name),
            f"slurmd runs with a limit of {value} for {name}, which jobs inherit: programs with many files, or RDMA, fail",
            f"on {host.name}: systemctl restart slurmd, which applies the limits of its unit; jobs continue",
            value=value,
            limit=least or "unlimited",
            evidence="/proc/PID/limits of slurmd",
        )


def _logins(host: Host, access: Access) -> Iterator[Judgement]:
    now, some, every = access.startups or (0, 0, 0)
    if now < min(some or STARTED, STARTED):
        return
    judged = failed if now >= some else warned
    yield judged(
        place(host.name, "sshd"),
        f"{now} ssh logins have started and do not end: from {some} on new logins are refused at random, from {every} on all",
        f"on {host.name}: systemctl restart ssh, which resets the count; ss -tn state established '( sport = :22 )' shows which hosts open them",
        value=now,
        unit="logins",
        limit=some,
        limit_source="MaxStartups of sshd",
    )


def _crowds(host: Host, access: Access) -> Iterator[Judgement]:
    for crowd in access.crowds:
        of = f" of {crowd.owner}, most of them {crowd.program}," if crowd.program else ""
        most = f" of {crowd.most} allowed" if crowd.most else ""
        path = crowd.group.rpartition("/")[2]
        fix = f"on {host.name}: systemd-cgls -u {path} shows them; systemctl stop {path} ends them"
        if PROGRAM.fullmatch(crowd.program) and PROGRAM.fullmatch(crowd.owner):
            names = f"$(sed 's#.*#/proc/&/comm#' {shlex.quote(GROUPS + crowd.group)}/cgroup.procs)"
            fix = f"on {host.name}: ps -u {crowd.owner} -o pid,ppid,lstart,args shows them; if no one needs them: grep -slx {crowd.program} {names} | cut -d/ -f3 | xargs kill"
        judged = failed if (crowd.most and crowd.tasks > crowd.most * 0.9) or crowd.tasks >= CROWD else warned  # fmt: skip
        yield judged(
            place(host.name, path),
            f"{crowd.tasks} processes and threads{of} run outside of jobs in {path}{most}",
            fix,
            value=crowd.tasks,
            unit="tasks",
            limit=crowd.most or CROWD,
            limit_source="TasksMax of the unit" if crowd.most else SOURCE_OF_CROWDS,
        )


def _nologin(host: Host, at: str) -> Judgement:
    return failed(
        place(host.name, at.removeprefix("/")),
        f"{at} exists: only root can log in",
        f"on {host.name}: cat {at} shows why; then rm {at}",
    )


def _homes(view: View, host: Host, facts: HostFacts, access: Access) -> Iterator[Judgement]:
    base = view.site.base
    shared = view.site.storage.mount_of(base.homes) is not None
    if not base.users or (shared and facts.os.container and Role.STORAGE not in host.roles):
        return  # containers mount no file server
    if access.homes is None:
        why = f"the homes below {base.homes} did not answer within 2 s"
        yield not_assessed(place(host.name, "homes"), facts.gap("access", why))
        return
    for home in access.homes[:MOST_PEOPLE]:
        yield _home(host, home)
    if len(access.homes) > MOST_PEOPLE:
        rest = plural(len(access.homes) - MOST_PEOPLE, "more home")
        cause = f"{rest} cannot be used by their owners"
        yield failed(place(host.name, "homes"), cause, f"on {host.name}: ls -la {base.homes}")


def _closed_account(host: Host, one: ClosedAccount) -> Judgement:
    user = shlex.quote(one.user)
    change = f"chage -E -1 {user}" if one.trouble == EXPIRED else f"chage -d -1 -M -1 {user}"
    return failed(
        place(host.name, f"account {one.user}"),
        f"the account {one.user} {one.trouble}: sshd and Slurm's PAM module refuse it",
        f"on {host.name}: chage -l {user} shows it; unless it was meant: {change}",
        value=one.trouble,
        evidence="/etc/shadow",
        kind=Kind.UNWRITTEN if one.trouble == EXPIRED else Kind.OTHER,
    )


def _taken(host: Host, one: TakenNumber) -> Judgement:
    """Which of the two owns a file is not known then, and Slurm starts jobs by number."""
    what, delete = ("account", "userdel -f") if one.kind == "uid" else ("group", "groupdel")
    return failed(
        place(host.name, f"{what} {one.by}"),
        f"the {what} {one.by} has {one.kind} {one.number}, which is that of {one.wanted} in the site: each has the files of the other",
        f"on {host.name}: grep {one.by} /etc/passwd /etc/group shows it; if no one needs it: {delete} {one.by}; "
        f"otherwise give it another {one.kind} with {what.replace('account', 'user')}mod",
        value=one.number,
        limit=f"{one.kind} of {one.wanted} alone",
    )


def _loose(host: Host, one: Home) -> Judgement:
    path = shlex.quote(one.at)
    change = "chmod go-w" if "mode" in one.trouble else f"chown {shlex.quote(one.user)}:"
    return failed(
        place(host.name, one.at.removeprefix("/")),
        f"{one.at} of admin {one.user} {one.trouble}: sshd refuses the keys in it (StrictModes), so that {one.user} cannot log in",
        f"on {host.name}: {change} {path}",
        value=one.trouble,
        limit=f"owned by {one.user}, writable by no one else",
        limit_source="sshd_config(5), StrictModes",
    )


def _home(host: Host, home: Home) -> Judgement:
    path = shlex.quote(home.at)
    fix = f"on {host.name}: chown {home.user}: {path}; chmod u+rwx {path}"
    if "not there" in home.trouble:
        folder = shlex.quote(home.at.rpartition("/")[0] or "/")
        fix = (
            f"on {host.name}: find {folder} -maxdepth 1 -user {home.user} shows a renamed one: mv FOLDER {path}; "
            f"findmnt -T {folder} shows the mount; mkhomedir_helper {home.user} makes an empty one"
        )
    if "closed" in home.trouble:
        fix = f"on {host.name}: chmod o+x {home.trouble.split(': ')[-1].split(' ')[0]}"
    cause = f"the home of {home.user}, {home.at}, {home.trouble}"
    return failed(place(host.name, home.at.removeprefix("/")), cause, fix)
