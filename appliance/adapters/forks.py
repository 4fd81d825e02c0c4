"""How many hosts ansible-playbook works on at once: as this machine's memory and processors carry."""

import os
from pathlib import Path

MEMINFO = Path("/proc/meminfo")
WORKER = 64 << 20
"""Bytes of one worker of ansible-core 2.19: 37 to 46 MiB of its own were measured, and its ssh takes the rest."""
SHARE = 4
"""So many stages may run side by side, each with a share of what is free as it begins."""
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
    """Bytes programs may still take without swapping; where the kernel does not tell, enough for the usual number."""
    try:
        lines = MEMINFO.read_text(encoding="ascii").splitlines()
        told = next(line.split()[1] for line in lines if line.startswith("MemAvailable:"))
        return int(told) * 1024
    except (OSError, StopIteration, ValueError, IndexError):
        return USUAL * WORKER * SHARE
