"""Limits on the size of one host's answer. Checks compare items with each other, so an inflated answer would cost minutes."""

from collections.abc import Iterator, Mapping
from typing import Any

SMALL = 128 << 10
"""Bytes. A smaller answer is judged in a moment, whatever it holds."""
LONGEST = 4 << 20
"""Bytes of an ordinary answer. A GPU host's is 0.05 MiB; with a fabric of 4000 cables, or 5000 scheduler nodes, it stays under 1 MiB."""
LONGEST_BESIDE = 16 << 20
"""Bytes of an answer that includes the posture: up to 4000 items of some 20 kinds."""
MOST = 20_000
"""Members of a list or object that has no limit of its own here."""
MOST_IN_ALL = 400_000
"""Members of all lists and objects; a fabric of 4000 cables has 50,000."""
BOUNDS: Mapping[str, int] = {
    "gpus.devices": 64,
    "gpus.devices.mig": 64,
    "gpus.devices.mig.parts": 16,
    "gpus.devices.pci_path": 64,
    "pci_gpu_ids": 64,
    "ports": 512,
    "ports.pci_path": 64,
    "ports.pkeys": 512,
    "ports.counters": 512,
    "disks": 4096,
    "filesystems": 4096,
    "interfaces": 4096,
    "access.spots": 1024,
    "neighbours.peers": 16,
    "neighbours.peers.ports": 16,
    "neighbours.name_servers": 16,
    "neighbours.blocks": 64,
    "neighbours.blocks.ports": 1024,
    "kernel_events": 256,
    "access.homes": 1024,
    "access.startups": 3,
    "access.crowds": 16,
    "access.variables": 512,
    "clock.sources": 16,
    "interfaces.addresses": 256,
    "numa": 1024,
    "memory_errors.modules": 1024,
    "pcie_errors.errors": 1024,
    "pcie_errors.uncounted": 1024,
    "nvme.notable": 1024,
    "nvme.unasked": 1024,
    "tuning.governors": 64,
    "tuning.command_line": 64,
    "tuning.devices": 128,
    "tuning.devices.at": 128,
    "tuning.access_control": 1024,
    "modules": 1024,
    "errors": 256,
    "problems": 4096,
    "simulated": 256,
    "xids": 1024,
    "xid_events": 1024,
    "switch_events": 1024,
    "foreign": 8192,
    "receipts": 64,
    "receipts.drift": 8192,
    "receipts.inputs": 1024,
    "topology.links": 100_000,
}
"""Limits by place in the facts; None stands for numbers and names. No host has a fourth of these GPUs and ports."""

NAMED = {
    **dict.fromkeys(("modules", "receipts", "units", "sysctl_at_boot"), 1),
    **dict.fromkeys(("posture.things", "scheduler.gpu_parts"), 2),
}
"""Objects whose keys are names of items, not of fields, and how many levels of names they have."""


def excess(answer: Mapping[str, object]) -> str:
    """Name what an answer has too many of; "" if it is within its limits."""
    left = MOST_IN_ALL
    for place, found in _members(answer):
        bound = BOUNDS.get(place, MOST)
        if found > bound:
            return f"it has {found} of {place or 'its fields'}; {bound} is the limit"
        left -= found
        if left < 0:
            return f"it has more than {MOST_IN_ALL} members in total"
    return ""


def _members(answer: Mapping[str, object]) -> Iterator[tuple[str, int]]:
    """Yield lists and objects, outermost first: their place and their number of members."""
    waiting: list[tuple[str, Any, int]] = [("", answer, 0)]
    for place, value, names in waiting:
        yield place, len(value)
        items = value.items() if isinstance(value, dict) else ((None, one) for one in value)
        for name, one in items:
            if not isinstance(one, (dict, list)):
                continue
            if name is None or names:
                waiting.append((place, one, max(names - 1, 0)))
            else:
                below = f"{place}.{name}" if place else name
                waiting.append((below, one, NAMED.get(below, 0)))
