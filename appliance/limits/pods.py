"""Pods as the API gives them, and the workloads they belong to."""

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
"""Seconds, of a pod that says nothing (Kubernetes)."""
LONGEST_GRACE = 600
"""What the policy appliance-end lets a project's work have."""
SHARED = ("gpu-fraction", "gpu-memory")
"""Annotations of KAI for a part of a GPU."""
FRACTION = re.compile(r"nvidia\.com/container\..+\.gpu-memory\.(request|limit)")
"""The same with NVIDIA's fractions (KAI v0.18): one for each container."""


class Owner(NamedTuple):
    """What names a resource."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


class Pod(NamedTuple):
    """``started``: when its host took it, in seconds; None: not yet. ``shared``: has a part of a GPU.

    ``held``: somebody deleted it with a longer grace than its own, and it works on until then.
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


class Work(NamedTuple):
    """What starts and ends together, under the name of what owns all of it."""

    root: Owner
    queue: str
    pods: Sequence[Pod]


def pod(found: Resource) -> Pod | None:
    """One pod; None for one that has ended or is about to. Raises Unknown for a date nobody can read."""
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
    )


def grace_of(found: Resource) -> int:
    """Seconds a pod is given to end: its own, within what a project's work may have."""
    own = found.get("spec", {}).get("terminationGracePeriodSeconds")
    return min(GRACE if own is None else int(own), LONGEST_GRACE)


def containers(spec: Resource) -> list[Resource]:
    """Those that run side by side: sidecars are init containers that are started again (Kubernetes 1.29)."""
    first = spec.get("initContainers") or ()
    sidecars = [box for box in first if box.get("restartPolicy") == "Always"]
    return [*(spec.get("containers") or ()), *sidecars]


def controller(meta: Resource, namespace: str) -> Owner | None:
    """Who makes another of it when it is gone."""
    for one in meta.get("ownerReferences") or ():
        if one.get("controller"):
            return Owner(one["apiVersion"], one["kind"], namespace, one["name"], one["uid"])
    return None


def seconds(date: str) -> float:
    """A date of the API, as 2026-11-22T03:00:00Z. Raises Unknown."""
    try:
        return float(calendar.timegm(time.strptime(date, "%Y-%m-%dT%H:%M:%SZ")))
    except (ValueError, TypeError):
        raise Unknown(f"{date} is no date") from None


def _gpus(container: Resource) -> int:
    """Whole GPUs and MIG instances."""
    limits = (container.get("resources") or {}).get("limits") or {}
    named = [n for n in limits if n == GPU + "gpu" or n.startswith(GPU + "mig-")]
    return sum(amount(limits[name]) for name in named)


def amount(said: object) -> int:
    """A whole number as the API writes it: 12, but 1k for 1000, and 1e3 where it was asked for so."""
    text = str(said)
    number = text.rstrip("kKMGTPEi")
    return round(float(number) * FACTORS[text[len(number) :]])
