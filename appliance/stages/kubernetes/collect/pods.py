"""Pods of a list of the API: whether each is ready, and the reason if not."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from appliance.probe.ask import Facts

ENDED = frozenset({"Succeeded"})
FAILED = "Failed"
NO_REASON = "containers with "
"""Prefix of kubelet's message that only lists containers, such as "containers with unready status: [x]"."""


def pods(items: list[dict[str, Any]], warnings: dict[str, str] | None = None) -> list[Facts]:
    """Return the pods of a list, without completed and replaced ones.

    ``warnings``: the newest by kind and name. A missing Secret is only in an event.
    """
    left = [item for item in items if _phase(item) not in ENDED and not _is_replaced(item, items)]
    told = warnings or {}
    return [_pod(item, told.get("Pod/" + str(item["metadata"]["name"]), "")) for item in left]


def _is_replaced(item: dict[str, Any], items: list[dict[str, Any]]) -> bool:
    """Return whether a failed pod, which stays in the list, was replaced by its owner."""
    maker, made = _maker(item), _made(item)
    return bool(any(maker) and _phase(item) == FAILED) and any(
        _maker(other) == maker and _phase(other) != FAILED and _made(other) >= made
        for other in items
    )


def _maker(item: dict[str, Any]) -> tuple[str, str]:
    """Return kind and name of the owner that recreates a pod under another name: a Deployment, for any of its ReplicaSets, or a Job."""
    for owner in item["metadata"].get("ownerReferences") or []:
        if owner.get("kind") == "ReplicaSet":
            return "ReplicaSet", str(owner.get("name", "")).rpartition("-")[0]
        if owner.get("kind") == "Job":
            return "Job", str(owner.get("name", ""))
    return "", ""


def _phase(item: dict[str, Any]) -> str:
    return str(item.get("status", {}).get("phase", ""))


def _made(item: dict[str, Any]) -> str:
    return str(item["metadata"].get("creationTimestamp", ""))


def _pod(item: dict[str, Any], warning: str) -> Facts:
    status = item.get("status", {})
    ready = any(
        c.get("type") == "Ready" and c.get("status") == "True"
        for c in status.get("conditions") or []
    )
    return {
        "name": item["metadata"]["name"],
        "namespace": item["metadata"].get("namespace", ""),
        "ready": ready,
        "reason": "" if ready else _reason(status, warning),
    }


def _reason(status: dict[str, Any], warning: str) -> str:
    """Return the waiting reason of the first container, otherwise the message of scheduler or kubelet, or the warning."""
    states = [
        *(status.get("initContainerStatuses") or []),
        *(status.get("containerStatuses") or []),
    ]
    waits = [s["state"]["waiting"] for s in states if s.get("state", {}).get("waiting")]
    waits = [w for w in waits if w.get("reason") != "PodInitializing"]
    if waits:
        message = waits[0].get("message") or warning
        return _line(f"{waits[0].get('reason', 'waiting')}: {message}").rstrip(": ")
    said = [c for c in status.get("conditions") or [] if c.get("status") != "True"]
    words = next((c["message"] for c in said if c.get("message")), status.get("message", ""))
    if str(words).startswith(NO_REASON):
        words = warning or words
    return _line(str(words or status.get("phase", "no reason given")))


def _line(said: str) -> str:
    """Return a message on one line; kubelet's may quote several lines of a program."""
    return " ".join(said.split())[:200]
