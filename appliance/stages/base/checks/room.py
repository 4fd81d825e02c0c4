"""Checks free space of a host's local file systems, and free memory."""

import shlex
from collections.abc import Iterable

from appliance.checks.check import View, failed, not_assessed, passed, warned
from appliance.models.facts import HostFacts, ProblemKind
from appliance.models.facts_host import Filesystem
from appliance.models.result import CheckResult, Judgement, Status, place
from appliance.models.site import Host
from appliance.stages.base import ids
from appliance.text import plural

FAIL_PERCENT = 5.0
WARN_PERCENT = 10.0
FAIL_INODES = 1024
FIXED_INODES = frozenset({"ext2", "ext3", "ext4"})
"""File systems with a fixed number of inodes; others create them on demand or report none."""
REMOTE = frozenset(
    {
        *("nfs", "nfs4", "cifs", "smb3", "ceph", "lustre", "gpfs", "beegfs"),
        *("wekafs", "glusterfs", "afs", "9p", "virtiofs"),
    }
)
IO_ERROR = "Input/output error"
SOURCE = "own choice: room for package installations and logs of some days"


def judge_disk(view: View, host: Host, facts: HostFacts) -> Iterable[Judgement]:
    """Judge the free space of every local file system: below 5 % fails, below 10 % warns."""
    places = _places(fs for fs in facts.filesystems if _counts(fs))
    local = [found[0] for found in places]
    least, source = view.number(ids.DISK) or (FAIL_PERCENT, SOURCE)
    bad = [_read_only(host, fs) for fs in facts.filesystems if _is_turned(fs)]
    bad += _unreadable(view, host, facts)
    bad += [result for found in places if (result := _judge(host, found, least, source))]
    if bad:
        return bad
    if not local:
        why = facts.gap("filesystems", "no local file system was read")
        return [not_assessed(host.name, why)]
    tightest = min(local, key=_percent)
    return [
        passed(
            host.name,
            round(_percent(tightest), 1),
            unit="% free",
            limit=least,
            limit_source=source,
            evidence=f"tightest of {len(local)}: {tightest.at}",
        )
    ]


def judge_memory(view: View, host: Host, facts: HostFacts) -> Iterable[Judgement]:
    """Warn below 5 % of available memory; a busy host is not a fault."""
    memory = facts.memory
    # The probe's area "cpu" reads memory, too.
    if not memory.total or "cpu" in facts.errors:
        return [not_assessed(host.name, facts.gap("cpu"))]
    percent = round(100 * memory.available / memory.total, 1)
    common = {"unit": "% available", "limit": FAIL_PERCENT, "limit_source": "own choice"}
    if percent >= FAIL_PERCENT:
        return [passed(host.name, percent, **common)]
    cause = f"{memory.available >> 20} MiB of {memory.total >> 20} MiB are available"
    fix = "ps aux --sort=-rss on the host lists the processes by memory use"
    return [warned(host.name, cause, fix, value=percent, **common)]


def is_of_room(result: CheckResult) -> bool:
    """Return whether the result is about a full file system, which waiting does not fix."""
    return result.status is Status.FAIL and result.unit in {"% free", "inodes"}


def is_remote(fs: Filesystem) -> bool:
    """Return whether the file system is on another machine, which checks its space."""
    return fs.type in REMOTE or fs.type.startswith("fuse")


def _read_only(host: Host, fs: Filesystem) -> Judgement:
    cause = f"{fs.at} ({fs.source}) is read-only: the kernel remounts it so after disk errors"
    fix = "dmesg on the host shows the disk; replace it, or run fsck and reboot"
    return failed(place(host.name, fs.at), cause, fix, value="read-only")


def _is_turned(fs: Filesystem) -> bool:
    """Return whether the kernel remounted it read-only; a read-only root always counts."""
    return fs.turned and not is_remote(fs) if fs.at != "/" else fs.read_only


def _unreadable(view: View, host: Host, facts: HostFacts) -> list[Judgement]:
    """Return file systems with disk errors; stage storage checks the site's mounts."""
    mounts = {mount.at for mount in view.site.storage.mounts}
    fix = "dmesg on the host shows the disk (or the server); umount it, then run fsck or xfs_repair, or replace the disk"
    return [
        failed(place(host.name, problem.at), f"{problem.at} returns errors: {IO_ERROR}", fix)
        for problem in facts.problems
        if (problem.area, problem.kind) == ("filesystems", ProblemKind.IO_ERROR)
        and problem.at not in mounts
    ]


def _places(found: Iterable[Filesystem]) -> list[list[Filesystem]]:
    """Group mounts of one file system: bind mounts, or the root of a container."""
    places: list[list[Filesystem]] = []
    for fs in found:
        known = next((p for p in places if any(_is_same(fs, other) for other in p)), None)
        places.append([fs]) if known is None else known.append(fs)
    return places


def _is_same(one: Filesystem, other: Filesystem) -> bool:
    """Return whether both are the same: an overlay reports the figures of its underlying file system."""
    if "overlay" in (one.type, other.type):
        return (one.size, one.free, one.inodes_free) == (other.size, other.free, other.inodes_free)
    return one.source == other.source and one.size == other.size


def _judge(host: Host, found: list[Filesystem], least: float, source: str) -> Judgement | None:
    fs, *others = found
    percent = round(_percent(fs), 1)
    is_full = fs.type in FIXED_INODES and fs.inodes_free < FAIL_INODES
    if percent >= max(WARN_PERCENT, least) and not is_full:
        return None
    also = f", and so have {', '.join(o.at for o in others)}: one file system" if others else ""
    target = place(host.name, fs.at)
    common = {"value": percent, "unit": "% free", "limit": least, "limit_source": source}
    if is_full:
        cause = f"{fs.at} has {plural(fs.inodes_free, 'inode')} left{also}"
        return failed(
            target,
            cause,
            f"remove files on {host.name}: du --inodes -x -d2 {fs.at} | sort -n lists the folders with most inodes",
            **{**common, "value": fs.inodes_free, "unit": "inodes", "limit": FAIL_INODES},
        )
    fix = f"free space on {host.name}: du -xh -d2 {fs.at} | sort -h shows the largest directories"
    cause = f"{fs.at} has {percent:g} % free ({fs.free >> 20} MiB){also}"
    if largest := _largest(host, fs):
        what, fix = largest
        cause += what
    if percent < least:
        return failed(target, cause, fix, **common)
    return warned(target, cause, fix, **common)


THROWN_AWAY = ("/tmp/", "/var/tmp/", "/var/crash/", "/var/lib/systemd/coredump/")
PEOPLE = range(1000, 60_000)
"""Uids of users' accounts (login.defs(5)); files of root may belong to the system."""


def _largest(host: Host, fs: Filesystem) -> tuple[str, str] | None:
    """Return the largest file and how to free its space: truncate a log, because its daemon keeps it open; ask the owner of a user's file."""
    size, uid, path = [*fs.largest.split(" ", 2), "", "", ""][:3]
    if not size.isdigit() or not path:
        return None
    what = f": {path} of uid {uid} takes {int(size) >> 20} MiB"
    at = shlex.quote(path)
    if path.startswith("/var/log/"):
        return what, f"on {host.name}: truncate -s 0 {at}; then find the program that writes it"
    is_persons = uid.isdigit() and int(uid) in PEOPLE
    if is_persons or path.startswith(THROWN_AWAY):
        return what, f"on {host.name}: if its owner agrees or has left: rm -r {at}"
    return what, f"on {host.name}: du -xah {at} | sort -h | tail shows what can be removed"


def _counts(fs: Filesystem) -> bool:
    return fs.size > 0 and not fs.read_only and not is_remote(fs)


def _percent(fs: Filesystem) -> float:
    return 100 * fs.free / fs.size
