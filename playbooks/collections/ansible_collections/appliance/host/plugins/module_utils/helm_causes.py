"""Why the objects of a release do not get ready, from its pods and claims: one phrase for each, causes before consequences."""

from __future__ import annotations

from ansible_collections.appliance.host.plugins.module_utils.lines import lines_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

ON_THE_WAY = ("ContainerCreating", "PodInitializing")
LONGEST = 160
"""Characters of what a container said."""


def causes(items: list[dict[str, Any]]) -> list[str]:
    """Phrases for claims, then for pods: a pod waits for its claim."""
    found = [
        said
        for item in items
        if item.get("kind") == "PersistentVolumeClaim"
        for said in _claim(item)
    ]
    for item in items:
        if item.get("kind") == "Pod":
            found += list(_pod(item))
    return found


def _claim(item: dict[str, Any]) -> Iterator[str]:
    if item.get("status", {}).get("phase") == "Bound":
        return
    name, chosen = item["metadata"]["name"], item.get("spec", {}).get("storageClassName")
    why = (
        f"StorageClass {chosen} has not made its volume"
        if chosen
        else "the cluster has no default StorageClass"
    )
    yield f"claim {name} is not bound: {why}"


def _pod(item: dict[str, Any]) -> Iterator[str]:
    name, status = item["metadata"]["name"], item.get("status", {})
    if status.get("phase") == "Succeeded":
        return
    for condition in status.get("conditions") or []:
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            yield f"pod {name} is not scheduled: {_short(condition.get('message'))}"
            return
    for part in (
        *(status.get("initContainerStatuses") or []),
        *(status.get("containerStatuses") or []),
    ):
        if said := _container(part):
            yield f"pod {name}: {said}"
            return
    if status.get("phase") == "Failed":
        yield f"pod {name} failed: {_short(status.get('message') or status.get('reason'))}"


def _container(part: dict[str, Any]) -> str:
    """What is wrong with a container; empty while it starts or runs."""
    state = part.get("state") or {}
    waiting, ended = state.get("waiting"), state.get("terminated")
    if waiting and waiting.get("reason") not in ON_THE_WAY:
        last = ((part.get("lastState") or {}).get("terminated") or {}).get("message")
        said = _short(last or waiting.get("message"))
        return f"container {part['name']}: {waiting.get('reason')}: {said}"
    if ended and ended.get("exitCode"):
        return f"container {part['name']} ended with {ended['exitCode']}: {_short(ended.get('message'))}"
    return ""


def _short(text: Any) -> str:
    """The last line, in which programs name the error."""
    lines = [line.strip() for line in lines_of(str(text or "")) if line.strip()]
    return lines[-1][:LONGEST] if lines else "no reason given"
