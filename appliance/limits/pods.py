"""Pods as the API returns them, and their workloads."""

from __future__ import annotations

import calendar
import re
import time
from typing import TYPE_CHECKING, NamedTuple

from appliance.limits.trouble import Unknown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from appliance.limits.api import Resource

QUEUE = "kai.scheduler/queue"
GPU = "nvidia.com/"
FACTORS: dict[str, int] = {
    "": 1,
    **{letter: 1000**power for power, letter in enumerate("kMGTPE", 1)},
    **{letter + "i": 1024**power for power, letter in enumerate("KMGTPE", 1)},
}
"""Suffixes of the API's quantities."""
GRACE = 30
"""Seconds, for a pod that sets none (Kubernetes)."""
LONGEST_GRACE = 600
"""Maximum that policy appliance-end allows a project's work."""
SHARED = ("gpu-fraction", "gpu-memory")
"""Annotations of KAI for a part of a GPU."""
FRACTION = re.compile(r"nvidia\.com/container\..+\.gpu-memory\.(request|limit)")
"""The same with NVIDIA's fractions (KAI v0.18): one per container."""


class Owner(NamedTuple):
    """Identity of a resource."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


class Pod(NamedTuple):
    """``started``: when its host accepted it, in seconds; None: not yet. ``shared``: has a part of a GPU.

    ``held``: it was deleted with a longer grace period than its own, and runs until then.
    ``places``: name and address of its host.
    """

    me: Owner
    queue: str
    phase: str
    started: float | None
    gpus: int
    shared: bool
    owner: Owner | None
    grace: int = GRACE
    held: bool = False
    places: frozenset[str] = frozenset()


class Work(NamedTuple):
    """Pods that start and end together, named after their common owner."""

    root: Owner
    queue: str
    pods: Sequence[Pod]


def pod(found: Resource) -> Pod | None:
    """Return one pod; None if it has ended or is ending. Raises Unknown for an unreadable date."""
    meta, spec, status = found["metadata"], found.get("spec", {}), found.get("status", {})
    if status.get("phase") in ("Succeeded", "Failed"):
        return None
    grace, leaving = grace_of(found), "deletionTimestamp" in meta
    held = leaving and (meta.get("deletionGracePeriodSeconds") or 0) > grace
    if leaving and not held:
        return None
    space = str(meta.get("namespace", ""))
    return Pod(
        me=Owner("v1", "Pod", space, str(meta["name"]), str(meta.get("uid", ""))),
        queue=str((meta.get("labels") or {}).get(QUEUE, "")),
        phase=str(status.get("phase", "")),
        started=seconds(status["startTime"]) if status.get("startTime") else None,
        gpus=sum(map(_gpus, containers(spec))),
        shared=bool(spec.get("resourceClaims"))
        or any(key in SHARED or FRACTION.fullmatch(key) for key in meta.get("annotations") or {}),
        owner=controller(meta, space),
        grace=grace,
        held=held,
        places=places(found),
    )


def places(found: Resource) -> frozenset[str]:
    """Return name and address of a pod's host, as far as they are known."""
    said = found.get("spec", {}).get("nodeName"), found.get("status", {}).get("hostIP")
    return frozenset(str(one) for one in said if one)


def grace_of(found: Resource) -> int:
    """Return the seconds that a pod has to end: its own, within the maximum for projects."""
    own = found.get("spec", {}).get("terminationGracePeriodSeconds")
    return min(GRACE if own is None else int(own), LONGEST_GRACE)


def containers(spec: Resource) -> list[Resource]:
    """Return the containers that run concurrently: sidecars are init containers with a restart policy (Kubernetes 1.29)."""
    first = spec.get("initContainers") or ()
    sidecars = [box for box in first if box.get("restartPolicy") == "Always"]
    return [*(spec.get("containers") or ()), *sidecars]


def controller(meta: Resource, namespace: str) -> Owner | None:
    """Return the controller that recreates it."""
    for one in meta.get("ownerReferences") or ():
        if one.get("controller"):
            return Owner(one["apiVersion"], one["kind"], namespace, one["name"], one["uid"])
    return None


def seconds(date: str) -> float:
    """Return a date of the API, such as 2026-11-22T03:00:00Z. Raises Unknown."""
    try:
        return float(calendar.timegm(time.strptime(date, "%Y-%m-%dT%H:%M:%SZ")))
    except (ValueError, TypeError):
        raise Unknown(f"{date} is no date") from None


def _gpus(container: Resource) -> int:
    """Return whole GPUs and MIG instances."""
    limits = (container.get("resources") or {}).get("limits") or {}
    named = [n for n in limits if n == GPU + "gpu" or n.startswith(GPU + "mig-")]
    return sum(amount(limits[name]) for name in named)


def amount(said: object) -> int:
    """Return an integer as the API writes it: 12, but also 1k for 1000, or 1e3 if it was written so."""
    text = str(said)
    number = text.rstrip("kKMGTPEi")
    return round(float(number) * FACTORS[text[len(number) :]])
