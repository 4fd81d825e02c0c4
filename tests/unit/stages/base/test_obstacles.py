"""Each obstacle to users' work is named with the command that ends it; what users can work with is not."""

from typing import Any

import pytest

from appliance.checks.check import View
from appliance.models.facts_host import Access, Obstacle, Spot, TakenNumber
from appliance.models.result import CheckResult, Status
from appliance.stages.base.stage import STAGE
from tests.support.facts import facts_of
from tests.support.judging import said_by
from tests.support.profiles import profile_of
from tests.support.sites import site_of

TMP = Spot(at="/tmp", kind="folder", mode=0o1777, owner="root", group="root")
LEASE = {"owner": "a", "who": "b", "run": "c", "verb": "deploy", "since": "d"}


def judged(*found: Obstacle, spots: tuple[Spot, ...] = (TMP,), **facts: Any) -> list[CheckResult]:
    access = Access(spots=spots, homes=(), obstacles=found)
    told = {"gpu-1": facts_of("gpu-1", access=access, **facts)}
    return said_by("base.access", View(profile_of(), site_of("gpu-1"), told))


def one(*found: Obstacle, **given: Any) -> CheckResult:
    (result,) = judged(*found, **given)
    return result


def of(
    kind: str, at: str = "", says: str = "", value: float | None = None, who: str = ""
) -> Obstacle:
    return Obstacle(kind=kind, at=at, says=says, value=value, of=who)


SBIN = "/usr/lib/x86_64-linux-gnu/slurm-wlm/auth_munge.so"
LOGIN = "/etc/profile.d/x.sh"


@pytest.mark.parametrize(
    ("found", "status", "target", "cause", "fix"),
    [
        (of("package", "tzdata", "half-configured"), "fail", "dpkg", "tzdata is half-configured", "dpkg --configure -a"),
        (of("package", "libc6", "half-installed"), "fail", "dpkg", "libc6 is half-installed", "apt-get install --reinstall -y libc6"),
        (of("unread", "network", "Permission denied"), "not_assessed", "network", "could not be examined: Permission denied", ""),
        (of("package journal", "/var/lib/dpkg/updates"), "fail", "dpkg", "its journal is not empty", "dpkg --configure -a"),
        (of("package lock", "apt", "T", 5.0), "warn", "dpkg", "apt (process None) holds the lock", "dpkg --configure -a"),
        (of("package lock", "apt", "S", 18000.0), "warn", "dpkg", "has run for 5 h", "kill -KILL"),
        (of("package lock", "apt", "S", 600.0), "pass", "", "", ""),
        (of("limit", "sshd", "open files", 64), "fail", "sshd,open files", "which logins inherit", "systemctl restart ssh,"),
        (of("limit", "sshd", "open files", 524288), "pass", "", "", ""),
        (of("limit", "slurmd", "open files", 64), "pass", "", "", ""),  # job_limits has it
        (of("limit", "slurmd", "processes", 50), "fail", "slurmd,processes", "which jobs inherit", "systemctl restart slurmd"),
        (of("limit", "slurmd", "processes", 63000), "pass", "", "", ""),
        (of("limit", "slurmd", "file size", 1 << 40), "fail", "slurmd,file size", "1099511627776", "systemctl restart slurmd"),
        (of("priority", "slurmd", "", 14), "fail", "slurmd,priority", "14 above", "systemctl restart slurmd"),
        (of("affinity", "sshd", "8", 1), "fail", "sshd,processors", "1 processor of 8", "systemctl restart ssh"),
        (of("loopback", "lo"), "fail", "lo", "lo is down", "ip link set lo up"),
        (of("ports", "p", "1 4", 4), "fail", "ports", "4 ports", "ip_local_port_range='32768 60999'"),
        (of("ports", "p", "32768 60999", 28232), "pass", "", "", ""),
        (of("rule", "IPv6", "prohibit", 100, "2001-2001"), "fail", "rule 100", "uid 2001-2001", "ip -6 rule del prio 100"),
        (of("read-only", "/var/spool/d", "slurmd"), "fail", "var/spool/d", "no job starts", "mount -o remount,rw"),
        (of("room", "/var/spool/d", "slurmd", 0), "fail", "var/spool/d", "0 KiB left: no job starts", "umount /var/spool/d; systemctl restart slurmd"),
        (of("room", "/var/spool/d", "slurmctld", 4096), "fail", "var/spool/d", "slurmctld loses its queue", "findmnt -T /var/spool/d"),
        (of("room", "/var/spool/d", "slurmd", 1 << 30), "pass", "", "", ""),
        (of("login", LOGIN, "syntax"), "fail", f"{LOGIN[1:]},syntax", "has a syntax error", f"mv {LOGIN} {LOGIN}.broken"),
        (of("login", "/etc/profile", "syntax"), "fail", "etc/profile,syntax", "no login reads it to its end", "cp /usr/share/base-files/profile /etc/profile"),
        (of("owner", "/var/lib/slurm/c", "/var/lib/slurm/c/hash.3", who="slurm slurmctld"), "fail", "var/lib/slurm/c", "batch jobs are refused", "chown -R slurm: /var/lib/slurm/c; systemctl reset-failed slurmctld"),
        (of("plugin", SBIN, "missing"), "fail", SBIN[1:], "does not exist", f"apt-get install --reinstall -y $(dpkg-query -S {SBIN}"),
        (of("plugin", SBIN, "closed"), "fail", SBIN[1:], "cannot be read by users", f"chmod 0644 {SBIN}"),
        (of("user limit", "/etc/security/limits.conf", "nproc", 5, "* hard"), "fail", "etc/security/limits.conf,* nproc", "every user to 5", r"'/^\s*\*\s+hard\s+nproc\s/d'"),
        (of("user limit", "/etc/security/limits.conf", "nproc", 4096, "* hard"), "pass", "", "", ""),
        (of("user limit", "/etc/security/limits.conf", "maxlogins", 4, "@x -"), "pass", "", "", ""),
        (of("user limit", "/etc/security/limits.conf", "cpu", 60, "bea hard"), "fail", "etc/security/limits.conf,bea cpu", "cpu of bea to 60", "bea"),
        (of("login", LOGIN, "PATH"), "fail", "etc/profile.d/x.sh,PATH", "find no command", "PATH=/d'"),
        (of("login", LOGIN, "TMPDIR", None, "/none"), "fail", "etc/profile.d/x.sh,TMPDIR", "/none, which does not exist", "TMPDIR=/d'"),
        (of("login", LOGIN, "umask 0777"), "fail", "etc/profile.d/x.sh,umask", "umask 0777", r"/^umask\s/d"),
        (of("login", LOGIN, "sleep 20"), "warn", "etc/profile.d/x.sh,sleep", "20 s", r"/^sleep\s/d"),
        (of("login", LOGIN, "sleep 1"), "pass", "", "", ""),
        (of("login", LOGIN, "set -e"), "fail", "etc/profile.d/x.sh,set", "set -e", r"/^set\s"),
        (of("login", LOGIN, "cd", None, "/none"), "fail", "etc/profile.d/x.sh,cd", "/none does not exist", r"/^cd\s"),
        (of("denied", "/etc/hosts.deny", "ALL"), "fail", "etc/hosts.deny", "every host", "/etc/hosts.deny"),
        (of("denied", "/etc/hosts.deny", "gpu-1"), "fail", "etc/hosts.deny", "from gpu-1", r"gpu\-1/d"),
        (of("denied", "/etc/hosts.deny", "10.0.0.0/8"), "fail", "etc/hosts.deny", "10.0.0.0/8", "sed -i -E"),
        (of("denied", "/etc/hosts.deny", "10."), "fail", "etc/hosts.deny", "from 10.", "sed -i -E"),
        (of("denied", "/etc/hosts.deny", "203.0.113.7"), "pass", "", "", ""),  # an attacker
        (of("processors", "/user.slice/session-3.scope", "python", 60.0, "bea"), "warn", "session-3.scope,python", "60.0 of 192 processors", "pkill -u bea -x python"),
        (of("processors", "/system.slice/x.service", "daemon", 60.0, "root"), "warn", "x.service,daemon", "60.0 of 192", "systemctl stop x.service"),
        (of("processors", "/system.slice/x.service", "daemon", 40.0, "root"), "pass", "", "", ""),
        (of("a kind of a later release", "x"), "pass", "", "", ""),
    ],
)  # fmt: skip
def test_each_obstacle(found: Obstacle, status: str, target: str, cause: str, fix: str) -> None:
    result = one(found)
    assert result.status.value == status
    if target:
        assert result.target == f"gpu-1/{target}"
        assert cause in result.cause
        assert fix in result.fix


def test_packages_are_one_finding() -> None:
    names = [f"p{number}" for number in range(7)]
    result = one(*(of("package", name, "unpacked") for name in names))
    assert (result.value, result.names) == (7, tuple(names))
    assert "and 2 more" in result.cause


@pytest.mark.parametrize(
    "found",
    [
        of("user limit", "/etc/security/limits.conf", "nproc", 5, "$(reboot) hard"),
        of("processors", "/system.slice/$(reboot).service", "x;y", 60.0, "bea"),
        of("package", "$(reboot)", "half-installed"),
    ],
)
def test_no_text_of_a_host_becomes_a_command(found: Obstacle) -> None:
    for result in judged(found):
        assert "$(reboot)" not in result.fix.replace("'$(reboot).service'", "")


def test_while_a_run_changes_the_host_its_work_is_no_finding() -> None:
    busy = of("processors", "/system.slice/x.service", "cc1", 60.0, "root")
    assert one(busy, lease=LEASE).status is Status.PASS


@pytest.mark.parametrize(
    ("change", "status", "fix"),
    [
        ({"noexec": True}, Status.WARN, "mount -o remount,exec $("),
        ({"read_only": True}, Status.FAIL, "mount -o remount,rw $("),
        ({"noexec": True, "at": "/dev/shm"}, Status.PASS, ""),  # strict hardening
    ],
)
def test_options_of_shared_folders(change: dict[str, Any], status: Status, fix: str) -> None:
    result = one(spots=(TMP.model_copy(update=change),))
    assert result.status is status
    assert fix in result.fix


def test_another_account_with_a_number_of_the_site_blocks_the_change() -> None:
    """Field case 29."""
    site = site_of("gpu-1")
    taken = TakenNumber(kind="uid", number=2001, by="carol", wanted="bob")
    facts = {"gpu-1": facts_of("gpu-1", access=Access(taken=(taken,)))}
    why = STAGE.blocked_by(site, site.hosts[0], facts)
    assert why.startswith("uid 2001 of bob belongs to carol on gpu-1: ")
    assert "usermod -u NUMBER carol" in why
    assert STAGE.blocked_by(site, site.hosts[0], {}) == ""


@pytest.mark.parametrize(
    ("cores", "waits", "status"),
    [
        (20.0, 60.0, Status.WARN),
        (20.0, 10.0, Status.PASS),
        (20.0, None, Status.PASS),
        (15.0, 99.0, Status.PASS),
    ],
)
def test_a_program_that_others_hold_back(cores: float, waits: float | None, status: Status) -> None:
    busy = of("processors", "/system.slice/x.service", "daemon", cores, "root")
    result = one(busy.model_copy(update={"waits": waits}))
    assert result.status is status
    if status is Status.WARN:
        assert "outside jobs, and waits for more in 60 % of the time, in" in result.cause
