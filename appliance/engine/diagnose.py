"""From what Ansible or a program said to one line of cause and one of remedy."""

import re
from dataclasses import dataclass

from appliance.models.facts import HostFacts


@dataclass(frozen=True)
class Diagnosis:
    """Why a host failed, and what to do about it. ``away``: it cannot be reached any more."""

    cause: str
    fix: str
    away: bool = False


# What Linux, apt and ssh print, and what it means for the person in the data hall.
PATTERNS: tuple[tuple[str, str, str], ...] = (
    (
        r"No space left on device|ENOSPC|disk quota exceeded",
        "the disk is full ({said})",
        "free space on {host} (journalctl --vacuum-size=200M, old logs, /var/cache), then deploy again",
    ),
    (
        r"(?<![\w/])/(?!proc/|sys/)[^\s:]+: (.*: )?Operation not permitted",
        "{said}; root is refused so where a file has the immutable attribute",
        "on {host} lsattr -d names it and its folder's attributes, chattr -i takes it away; then deploy again",
    ),
    (
        r"Read-only file system",
        "a file system has become read-only ({said})",
        "look for disk errors on {host} (dmesg), replace the disk or remount, then deploy again",
    ),
    (
        r"Unable to locate package|No package .* available|Unable to find a match|has no installation candidate",
        "{said}",
        "the package source of {host} lacks it: check its repositories or mirror, then deploy again",
    ),
    (
        r"Could not resolve|Temporary failure resolving|Failed to fetch|Cannot download|Connection timed out \[IP",
        "the package source cannot be reached ({said})",
        "check DNS, proxy and mirror from {host}, then deploy again",
    ),
    (
        r"could not get lock|is another process using it|Waiting for cache lock",
        "another package manager holds the lock ({said})",
        "wait for unattended upgrades on {host} to end, then deploy again",
    ),
    (
        r"dpkg was interrupted",
        "an earlier package installation was cut off",
        "deploy again; it mends the package database first",
    ),
    (
        r"sudo: a password is required|Missing sudo password",
        "the login user may not use sudo without a password",
        "give it NOPASSWD in /etc/sudoers.d on {host}, or use root",
    ),
    (
        r"Out of memory|Cannot allocate memory|oom-kill",
        "the host ran out of memory ({said})",
        "see what takes the memory of {host}, then deploy again",
    ),
)


FULL = 1 << 20
"""Bytes free on a file system below which nothing can be installed or written there."""


def full_filesystem(facts: HostFacts | None) -> str:
    """Where a host's disk is full, "" where it is not: most programs name their own symptom instead."""
    for found in facts.filesystems if facts else ():
        # Some file systems count no inodes at all (btrfs); those say 0 and are not full.
        counts = found.type not in {"btrfs", "vfat"}
        if not found.read_only and (found.free < FULL or (counts and not found.inodes_free)):
            return found.at
    return ""


def diagnose(host: str, task: str, said: str, full: str = "") -> Diagnosis:
    """The first pattern that fits; otherwise the words themselves and where they came from.

    ``full``: the mount point of a file system that is full, whatever the program said.
    """
    if full:
        said = f"no space left on device at {full}: {said}"
    for pattern, cause, fix in PATTERNS:
        if re.search(pattern, said, re.IGNORECASE):
            return Diagnosis(cause.format(said=said), fix.format(host=host))
    where = f"task “{task}”: " if task else ""
    return Diagnosis(
        f"{where}{said}", f"correct it on {host}, then deploy again: only this is repeated"
    )
