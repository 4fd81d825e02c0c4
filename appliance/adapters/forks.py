"""How many hosts ansible-playbook works on at once: limited by this machine's memory and processors."""

import os
from pathlib import Path

MEMINFO = Path("/proc/meminfo")
WORKER = 64 << 20
"""Bytes of one worker of ansible-core 2.19: 37 to 46 MiB of its own were measured, and its ssh needs the rest."""
SHARE = 4
"""How many stages may run in parallel, each with a share of the free memory at its start."""
PER_PROCESSOR = 16
"""A worker mostly waits for its host."""
LEAST, USUAL = 5, 50


def forks(hosts: int) -> int:
    """At most one per host, at least Ansible's own five."""
    carried = min(
        _available() // SHARE // WORKER, max(USUAL, PER_PROCESSOR * (os.cpu_count() or 1))
    )
    return max(LEAST, min(hosts, carried))


def _available() -> int:
    """Bytes that programs may still use without swapping; if the kernel does not report it, enough for the usual number."""
    try:
        lines = MEMINFO.read_text(encoding="ascii").splitlines()
        told = next(line.split()[1] for line in lines if line.startswith("MemAvailable:"))
        return int(told) * 1024
    except (OSError, StopIteration, ValueError, IndexError):
        return USUAL * WORKER * SHARE
