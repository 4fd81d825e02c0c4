"""Turns output of Ansible or a program into one line of cause and one line of remedy."""

import re
from dataclasses import dataclass

from appliance.models.facts import HostFacts


@dataclass(frozen=True)
class Diagnosis:
    """Why a host failed, and the remedy. ``away``: it is no longer reachable."""

    cause: str
    fix: str
    away: bool = False


# Messages of Linux, apt and ssh, and what they mean for the operator.
PATTERNS: tuple[tuple[str, str, str], ...] = (
    (
        r"No space left on device|ENOSPC|disk quota exceeded",
        "the disk is full ({said})",
        "free space on {host} (journalctl --vacuum-size=200M, old logs, /var/cache), then deploy again",
    ),
    (
        r"(?<![\w/])/(?!proc/|sys/)[^\s:]+: (.*: )?Operation not permitted",
        "{said}; root gets this error if a file has the immutable attribute",
        "on {host}, lsattr -d shows the attributes of the file and its folder, chattr -i removes the attribute; then deploy again",
    ),
    (
        r"Read-only file system",
        "a file system has become read-only ({said})",
        "look for disk errors on {host} (dmesg), replace the disk or remount, then deploy again",
    ),
    (
        r"Unable to locate package|No package .* available|Unable to find a match|has no installation candidate",
        "{said}",
        "the package source of {host} does not contain it: check its repositories or mirror, then deploy again",
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
        "an earlier package installation was interrupted",
        "deploy again; the run first repairs the package database",
    ),
    (
        r"waiting for privilege escalation prompt",
        "sudo did not answer in time ({said})",
        "check the name servers in /etc/resolv.conf of {host}, which sudo asks for the host's own name; or there: echo 127.0.1.1 $(hostname) >> /etc/hosts",
    ),
    (
        r"sudo: a password is required|Missing sudo password",
        "the login user needs a password for sudo",
        "give it NOPASSWD in /etc/sudoers.d on {host}, or use root",
    ),
    (
        r"Out of memory|Cannot allocate memory|oom-kill",
        "the host ran out of memory ({said})",
        "check what uses the memory of {host}, then deploy again",
    ),
)


FULL = 1 << 20
"""Bytes free on a file system below which nothing can be installed or written."""


def full_filesystem(facts: HostFacts | None) -> str:
    """Return the full file system of a host, "" if there is none: most programs report another symptom."""
    for found in facts.filesystems if facts else ():
        # Some file systems count no inodes (btrfs): they report 0 and are not full.
        counts = found.type not in {"btrfs", "vfat"}
        if not found.read_only and (found.free < FULL or (counts and not found.inodes_free)):
            return found.at
    return ""


def diagnose(host: str, task: str, said: str, full: str = "") -> Diagnosis:
    """Return the first pattern that matches; otherwise the text itself and its source.

    ``full``: the mount point of a full file system, whatever the program printed.
    """
    if full:
        said = f"no space left on device at {full}: {said}"
    for pattern, cause, fix in PATTERNS:
        if re.search(pattern, said, re.IGNORECASE):
            return Diagnosis(cause.format(said=said), fix.format(host=host))
    where = f"task “{task}”: " if task else ""
    return Diagnosis(
        f"{where}{said}", f"fix it on {host}, then deploy again: only this stage is repeated"
    )
