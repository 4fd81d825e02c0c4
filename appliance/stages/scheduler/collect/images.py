"""The images of a namespace's pods: requested references, and the IDs that run."""

from __future__ import annotations

from appliance.probe.problems import Unreadable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from appliance.probe.ask import Facts

ENDED = frozenset({"Succeeded", "Failed"})
LONGEST = 512
"""Maximum characters of an image ID: a reference and a digest."""


def images(items: list[dict[str, Any]], space: str) -> list[Facts]:
    """Return the images of a list of pods, without ended pods and containers that never started.

    A container's status names its image by any of the tags the host has for it, so the pod's own words count. A kubelet
    writes the statuses of its pods: containers that a pod does not declare, and further statuses of one, are left out.
    Raises Unreadable.
    """
    found: dict[tuple[str, str], set[str]] = {}
    try:
        for item in items:
            status, spec = item.get("status", {}), item.get("spec", {})
            if status.get("phase") in ENDED:
                continue
            for asked, image_id in _containers(spec, status):
                found.setdefault((asked, image_id), set()).add(spec.get("nodeName", ""))
    except (KeyError, TypeError, AttributeError):
        raise Unreadable("the API returned no list of pods") from None
    return [
        {"namespace": space, "image": asked, "id": image_id, "hosts": sorted(hosts)}
        for (asked, image_id), hosts in sorted(found.items())
    ]


def _containers(spec: dict[str, Any], status: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the requested image and the image ID of each started container."""
    kinds = (("initContainers", "initContainerStatuses"), ("containers", "containerStatuses"))
    found: list[tuple[str, str]] = []
    for declared, seen in kinds:
        asked = {c["name"]: c.get("image", "") for c in spec.get(declared) or []}
        for one in status.get(seen) or []:
            image_id = str(one.get("imageID", ""))
            if one["name"] in asked and (image_id or one.get("containerID")):
                found.append((asked.pop(one["name"]), image_id[:LONGEST]))
    return found
