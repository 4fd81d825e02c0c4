"""One-line reasons for what went wrong on a host."""

from __future__ import annotations

import errno
import os
import re

from ansible_collections.appliance.host.plugins.module_utils.lines import lines_of

# What a role makes has the modes it names, also where the site's sessions close files to others (base.strict). Each module runs by itself.
os.umask(0o022)

_NO_SPACE = re.compile(r"no space left on device|enough free space|more space needed on", re.I)


class Problem(Exception):
    """Something the user must know: one line that names the thing and the reason."""


def os_reason(error: OSError) -> str:
    """Why a system call failed, in the kernel's words."""
    if error.errno == errno.ENOSPC:
        return "no space left on device"
    return error.strerror or str(error)


def out_of_space(text: str) -> bool:
    """Whether a program's output says that a file system is full."""
    return bool(_NO_SPACE.search(text))


def last_line(text: str) -> str:
    """The last line that says something."""
    lines = [line.strip() for line in lines_of(text) if line.strip()]
    return lines[-1] if lines else ""


def telling_line(text: str) -> str:
    """The line that names an error, else the last one with a word in it."""
    lines = [line.strip() for line in lines_of(text) if re.search(r"\w", line)]
    errors = [line for line in lines if re.search(r"error|fail|invalid|bad |not ", line, re.I)]
    return (errors or lines[::-1] or [""])[0]


def in_container() -> bool:
    """Whether this host shares its kernel with the machine it runs on."""
    return any(
        os.path.exists(mark)
        for mark in ("/run/systemd/container", "/run/.containerenv", "/.dockerenv")
    )


def full_file_systems() -> str:
    """Mount points with less than 1 MiB free, for a message; empty when none is."""
    full = []
    for place in ("/", "/boot", "/etc", "/opt", "/tmp", "/usr", "/var", "/var/cache", "/var/lib"):
        try:
            state = os.statvfs(place)
        except OSError:
            continue
        if state.f_blocks and state.f_bavail * state.f_frsize < 1 << 20:
            full.append(place)
    return ", ".join(full)
