"""Finds work that depends on a removed queue, or whose CPU request becomes too small."""

import re
from decimal import Decimal

from appliance.adapters.kubernetes import Cluster, Resource
from appliance.stages.queues.difference import amount_of
from appliance.stages.scheduler.queues.namespaces import namespace_of

QUEUE_LABEL = "kai.scheduler/queue"
DEFAULTED = "kubernetes.io/limit-ranger"
"""Annotation of a pod: the requests and limits that the API server set by default (plugin LimitRanger)."""
ENDED = frozenset({"Succeeded", "Failed"})


def holds_work(cluster: Cluster, resource: Resource) -> str:
    """Return why a queue must stay: allocated, requested or labelled work; empty if there is none."""
    name = resource["metadata"]["name"]
    match resource["kind"]:
        case "Queue":
            pods = pods_of(cluster, name)
            return _status(resource.get("status", {})) or (pods and f"{pods} is of it")
        case "Project":
            space = resource.get("spec", {}).get("namespace") or namespace_of(name)
            quota = resource.get("status", {}).get("quotaStatus", {})
            return _status(quota) or _first(_alive(cluster, "", space), "is of it")
        case "PersistentVolumeClaim":
            return mounting(cluster, resource)
    return ""


def mounting(cluster: Cluster, claim: Resource) -> str:
    """Return which pod mounts a claim, or waits to; empty if none does."""
    meta = claim["metadata"]
    return _first(
        [
            pod
            for pod in _alive(cluster, "", meta["namespace"])
            if any(
                v.get("persistentVolumeClaim", {}).get("claimName") == meta["name"]
                for v in pod.get("spec", {}).get("volumes") or []
            )
        ],
        "mounts it",
    )


def _status(status: Resource) -> str:
    """Return allocated resources by the controller's status."""
    for key, verb in (("allocated", "runs with"), ("requested", "waits for")):
        given = {name: value for name, value in (status.get(key) or {}).items() if _amount(value)}
        if given:
            parts = ", ".join(f"{value} {name}" for name, value in sorted(given.items()))
            return f"work {verb} {parts}"
    return ""


def _amount(value: object) -> bool:
    return str(value).strip("0.") != ""


def pods_of(cluster: Cluster, queue: str) -> str:
    """Return which pod of a queue runs or waits, and the number of others; empty if there is none."""
    return _first(_alive(cluster, f"{QUEUE_LABEL}={queue}", ""))


def pods_below(cluster: Cluster, space: str, least: Decimal) -> str:
    """Return which pod of a namespace requests less CPU by its author, and the number of others; empty if there is none."""
    return _first([pod for pod in _alive(cluster, "", space) if _cpu(pod, least) < least])


def _cpu(pod: Resource, default: Decimal) -> Decimal:
    """Return a pod's CPU request. ``default``: for containers whose request is the default of a LimitRange."""
    defaulted = (pod["metadata"].get("annotations") or {}).get(DEFAULTED, "")
    found = Decimal(0)
    for box in pod.get("spec", {}).get("containers") or []:
        own = rf"\bcpu\b[^;]* request for container {re.escape(box['name'])}(;|$)"
        asked = (box.get("resources", {}).get("requests") or {}).get("cpu")
        found += default if re.search(own, defaulted) else amount_of(asked) or Decimal(0)
    return found


def _alive(cluster: Cluster, selector: str, space: str) -> list[Resource]:
    return [
        pod
        for pod in cluster.find("v1", "Pod", selector)
        if pod.get("status", {}).get("phase") not in ENDED
        and (not space or pod["metadata"].get("namespace") == space)
    ]


def _first(pods: list[Resource], what: str = "") -> str:
    if not pods:
        return ""
    first = pods[0]["metadata"]
    more = f" and {len(pods) - 1} more" if len(pods) > 1 else ""
    return f"pod {first.get('namespace', 'default')}/{first['name']}{more} {what}".rstrip()
