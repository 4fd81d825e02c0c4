"""How much the answer of one host may hold. Its checks compare things with each other, so that many made-up ones cost this machine minutes."""

from collections.abc import Iterator, Mapping
from typing import Any

SMALL = 128 << 10
"""Bytes of an answer that can hold no more of anything than is judged in a moment."""
LONGEST = 4 << 20
"""Bytes of an ordinary answer. A GPU host's is 0.05 MiB; with a fabric of 4000 cables, or 5000 nodes of a scheduler, under 1 MiB."""
LONGEST_BESIDE = 16 << 20
"""Bytes with what a host is beside its stages: up to 4000 things of some 20 kinds."""
MOST = 20_000
"""Members of a list or an object that has no bound of its own here."""
MOST_IN_ALL = 400_000
"""Members of all of them; a fabric of 4000 cables has 50,000."""
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
    "interfaces.addresses": 256,
    "numa": 1024,
    "memory_errors.modules": 1024,
    "pcie_errors.errors": 1024,
    "pcie_errors.uncounted": 1024,
    "nvme.notable": 1024,
    "nvme.unasked": 1024,
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
"""By the place in the facts, numbers and names of things left out. Of GPUs and ports no host has a fourth of that."""

NAMED = frozenset(
    {"modules", "receipts", "units", "sysctl_at_boot", "posture.things", "scheduler.gpu_parts"}
)
"""Objects whose members are things by their names, and no fields."""


def excess(answer: Mapping[str, object]) -> str:
    """What there is too much of in an answer; "" where it is within bounds."""
    left = MOST_IN_ALL
    for place, found in _members(answer):
        bound = BOUNDS.get(place, MOST)
        if found > bound:
            return f"it has {found} of {place or 'its fields'}; {bound} is the limit"
        left -= found
        if left < 0:
            return f"it has more than {MOST_IN_ALL} members in all"
    return ""


def _members(answer: Mapping[str, object]) -> Iterator[tuple[str, int]]:
    """Lists and objects, outermost first: where they stand, and how many members they have."""
    waiting: list[tuple[str, Any]] = [("", answer)]
    for place, value in waiting:
        yield place, len(value)
        of_things = place in NAMED
        items = value.items() if isinstance(value, dict) else ((None, one) for one in value)
        waiting += [
            (place if name is None or of_things else f"{place}.{name}" if place else name, one)
            for name, one in items
            if isinstance(one, (dict, list))
        ]
