"""Kinds of faults as conditions of a node: as with node-problem-detector, True means that the fault is there.

Other programs (remediation operators, dashboards) match these types. Which areas of facts a kind needs tells whether it was judged.
"""

from __future__ import annotations

import re

from appliance.stages.base import ids as base_ids
from appliance.stages.fabric import ids as fabric_ids
from appliance.stages.gpu import ids as gpu_ids
from appliance.stages.storage import ids as storage_ids

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from appliance.watch.verdict import Cause

    Kind = tuple[tuple[str, ...], tuple[str, ...]]

KINDS: dict[str, Kind] = {
    "GPUMissing": ((gpu_ids.COUNT, gpu_ids.DRIVER, gpu_ids.ERROR), ("gpus",)),
    "GPUMemoryErrors": ((gpu_ids.ECC, gpu_ids.REMAP), ("gpus",)),
    "XIDErrors": ((gpu_ids.XID,), ("xids",)),
    "NVLinkStatusInactive": ((gpu_ids.NVLINK, gpu_ids.FABRIC_MANAGER), ("gpus", "units")),
    "PCIeLinkDegraded": ((gpu_ids.PCIE, base_ids.PCIE_ERRORS), ("gpus", "aer")),
    "FabricLinkDown": (
        (fabric_ids.PORTS, fabric_ids.STATE, fabric_ids.ACTIVE, fabric_ids.RATE),
        ("ports",),
    ),
    "FilesystemUnusable": (
        (storage_ids.MOUNT, storage_ids.SCRATCH, base_ids.DISK),
        ("filesystems",),
    ),
    "MemoryErrors": ((base_ids.MEMORY_ERRORS,), ("edac",)),
    "DriveFailed": ((base_ids.NVME,), ("nvme",)),
}
"""Type of the condition -> its checks, and the areas of facts without which they are not judged."""
OTHER = "HealthCheckFailed"
"""All other checks: the clock, missing devices, programs of the site."""
MOST = 400
"""Characters of a message; ``kubectl describe node`` prints it on one line."""


def areas(check: str) -> tuple[str, ...]:
    """The areas of facts without which this check is not judged."""
    return next((needs for checks, needs in KINDS.values() if check in checks), ())


def conditions(causes: Iterable[Cause], blind: dict[str, str]) -> list[dict[str, str]]:
    """Type, status, reason and message of each kind. ``blind``: areas that could not be read, with the reason."""
    kinds: dict[str, list[Cause]] = {kind: [] for kind in (*KINDS, OTHER)}
    for cause in causes:
        found = (kind for kind, (checks, _) in KINDS.items() if cause.check in checks)
        kinds[next(found, OTHER)].append(cause)
    return [{"type": kind, **_state(kind, ours, blind)} for kind, ours in kinds.items()]


def reason(check: str) -> str:
    """A check's id as the reason of a condition: one word."""
    return "".join(word.capitalize() for word in re.split("[._]", check))


def _state(kind: str, causes: list[Cause], blind: dict[str, str]) -> Any:
    if causes:
        text = "; ".join(map(str, causes))
        return {"status": "True", "reason": reason(causes[0].check), "message": text[:MOST]}
    needs = KINDS[kind][1] if kind in KINDS else ()
    unread = [f"{area}: {blind[area]}" for area in needs if area in blind]
    if unread:
        return {
            "status": "Unknown",
            "reason": "NotJudged",
            "message": ("not judged: " + "; ".join(unread))[:MOST],
        }
    return {"status": "False", "reason": "NoFault", "message": "no fault was found"}
