"""Pods of this host that use GPUs: a notice to their owners when the host is cordoned, and their end at the stated time.

Kubelet's identity may delete pods of its own node only (NodeRestriction), and write events.
"""

from __future__ import annotations

import calendar
import json
import time
from contextlib import suppress

from appliance.probe.problems import Unreadable
from appliance.stages.kubernetes.collect.api import JSON

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from appliance.stages.kubernetes.collect.api import Api

    Resource = dict[str, Any]

GPU, SHARED = "nvidia.com/", ("gpu-fraction", "gpu-memory")
"""Resources of NVIDIA's device plugin, and KAI's annotations for a part of a GPU."""
RESERVATION = "kai-resource-reservation"
"""Namespace of the pods by which KAI holds a shared GPU; KAI ends them itself."""
OVER = frozenset({"Succeeded", "Failed"})
STATIC = "kubernetes.io/config.mirror"
LONGEST_GRACE = 600
"""Seconds; as policy appliance-end allows a project's work."""
TIME = "%Y-%m-%dT%H:%M:%SZ"


def moment(at: float) -> str:
    """A time in s since the epoch as the API writes it."""
    return time.strftime(TIME, time.gmtime(at))


def passed(ends: str) -> bool:
    """Whether this time is over; one that an operator wrote in another form never is."""
    try:
        return time.time() >= calendar.timegm(time.strptime(ends, TIME))
    except ValueError:
        return False


def with_gpus(api: Api, node: str) -> list[Resource]:
    """Running pods of the host that use GPUs; without those of DaemonSets. Raises Unreadable."""
    found = api.items(f"/api/v1/pods?fieldSelector=spec.nodeName%3D{node}", "Pod")
    return [pod for pod in found if _uses_gpus(pod) and not _is_left(pod)]


def _uses_gpus(pod: Resource) -> bool:
    spec, annotations = pod["spec"], pod["metadata"].get("annotations") or {}
    wanted = (one.get("resources", {}).get("limits") or {} for one in spec["containers"])
    whole = any(name.startswith(GPU) for limits in wanted for name in limits)
    return whole or bool(spec.get("resourceClaims")) or not set(SHARED).isdisjoint(annotations)


def _is_left(pod: Resource) -> bool:
    """It has ended, is ending, or would be made again on this host."""
    meta = pod["metadata"]
    owners = {owner["kind"] for owner in meta.get("ownerReferences") or ()}
    ended = pod.get("status", {}).get("phase") in OVER or "deletionTimestamp" in meta
    of_host = STATIC in (meta.get("annotations") or {}) or "DaemonSet" in owners
    return ended or of_host or meta["namespace"] == RESERVATION


def end(api: Api, pods: list[Resource]) -> list[str]:
    """Delete them with their own grace period, at most 10 min; return why some could not be deleted."""
    failed = []
    for pod in pods:
        meta = pod["metadata"]
        # 0 would take the pod out of the API before its containers have ended.
        grace = min(max(1, pod["spec"].get("terminationGracePeriodSeconds") or 1), LONGEST_GRACE)
        body = {"gracePeriodSeconds": grace, "preconditions": {"uid": meta["uid"]}}
        path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
        try:
            api.change(path, json.dumps(body), JSON, "DELETE")
        except Unreadable as error:
            failed.append(f"pod {meta['namespace']}/{meta['name']}: {error}")
    return failed


def warn(api: Api, pods: list[Resource], node: str, text: str) -> None:
    """Write an event at each pod, as far as the API takes it."""
    now = moment(time.time())
    for pod in pods:
        meta = pod["metadata"]
        about = {"apiVersion": "v1", "kind": "Pod"}
        about.update({key: meta[key] for key in ("name", "namespace", "uid")})
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"generateName": "appliance-watch-", "namespace": meta["namespace"]},
            "involvedObject": about,
            "type": "Warning",
            "reason": "HostUnfit",
            "message": text,
            "source": {"component": "appliance-watch", "host": node},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        with suppress(Unreadable):
            path = f"/api/v1/namespaces/{meta['namespace']}/events"
            api.change(path, json.dumps(event), JSON, "POST")
