"""Pods that the cluster itself needs: number of ready ones, their hosts, and why others are not ready."""

from __future__ import annotations

import calendar
import time

from appliance.probe import files
from appliance.probe.ask import Ask
from appliance.stages.kubernetes.collect.api import Api

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from appliance.probe.ask import Facts

SPACE = "kube-system"
CALICO = "/etc/cni/net.d/10-calico.conflist"
SPACES_OF_CALICO = ("tigera-operator", "calico-system")
KINDS = {
    "Pod": ("api/v1", "pods"),
    "Deployment": ("apis/apps/v1", "deployments"),
    "DaemonSet": ("apis/apps/v1", "daemonsets"),
    "StatefulSet": ("apis/apps/v1", "statefulsets"),
}
"""API path and name of each kind."""
WANTED = {
    "Deployment": ("spec", "replicas"),
    "StatefulSet": ("spec", "replicas"),
    "DaemonSet": ("status", "desiredNumberScheduled"),
}
STARTS = frozenset({"", "PodInitializing", "ContainerCreating"})
"""Waiting reasons that also occur in a normal start; the cause is in the events then."""
CRASHED = frozenset({"CrashLoopBackOff", "Error"})


def workloads(ask: Ask, api: Api) -> list[Facts]:
    """Return all workloads of the platform's namespaces. Raises Unreadable."""
    spaces = (SPACE, *(SPACES_OF_CALICO if files.exists(ask.path(CALICO)) else ()))
    lists = {space: objects(api, space) for space in spaces}
    return [
        one for space, items in lists.items() for one in judge(items, warnings(api, space, items))
    ]


def objects(api: Api, space: str) -> list[dict[str, Any]]:
    """Return pods of a namespace, and the workloads that create them. Raises Unreadable."""
    paths = {
        kind: f"/{where}/namespaces/{space}/{plural}" for kind, (where, plural) in KINDS.items()
    }
    return [item for kind, path in paths.items() for item in api.items(path, kind)]


def warnings(api: Api, space: str, items: list[dict[str, Any]]) -> dict[str, str]:
    """Return the newest warning about each object of a namespace; none if all pods are ready. Raises Unreadable."""
    if all(one["ready"] >= one["wanted"] and not one["pods"] for one in judge(items, {})):
        return {}
    path = f"/api/v1/namespaces/{space}/events?fieldSelector=type%3DWarning"
    return events(api.items(path, "Event"))


def lacking(judged: list[Facts]) -> list[Facts]:
    """Return workloads whose pods cannot be created."""
    return [one for one in judged if one["ready"] + len(one["pods"]) < one["wanted"] and one["why"]]


def events(items: list[dict[str, Any]]) -> dict[str, str]:
    """Return the newest warning about each object, by kind and name."""
    found: dict[str, tuple[str, str]] = {}
    for item in items:
        about = item.get("involvedObject") or {}
        key = str(about.get("kind")) + "/" + str(about.get("name"))
        when = str(item.get("lastTimestamp") or item.get("eventTime") or "")
        said = str(item.get("reason", "")) + ": " + str(item.get("message", ""))
        found[key] = max(found.get(key, ("", "")), (when, said))
    return {key: said for key, (_, said) in found.items()}


def judge(items: list[dict[str, Any]], warnings: dict[str, str]) -> list[Facts]:
    """Return workloads with their pods; a static pod is a workload of its own."""
    pods = [item for item in items if item.get("kind") == "Pod" and _counts(item)]
    found: dict[str, Facts] = {}
    for item in items:
        kind, name = str(item.get("kind")), item["metadata"]["name"]
        if kind in WANTED:
            part, key = WANTED[kind]
            found[kind + "/" + name] = _workload(item, kind, _number(item.get(part, {}).get(key)))
    for pod in pods:
        key = _maker(pod)
        if key not in found:
            found[key] = _workload(pod, "Pod", 1)
        one, host = found[key], str(pod.get("spec", {}).get("nodeName", ""))
        if _is_ready(pod):
            one["ready"] += 1
            one["hosts"] = sorted({*one["hosts"], host})
        else:
            one["pods"].append(trouble(pod, warnings))
    for key, one in found.items():
        if one["ready"] + len(one["pods"]) < one["wanted"]:
            one["why"] = _not_made(key, items, warnings)
    return [found[key] for key in sorted(found)]


def _workload(item: dict[str, Any], kind: str, wanted: int) -> Facts:
    meta = item["metadata"]
    return {
        "name": meta["name"],
        "namespace": meta.get("namespace", ""),
        "kind": kind,
        "wanted": wanted,
        "ready": 0,
        "hosts": [],
        "why": "",
        "pods": [],
    }


def _number(said: Any) -> int:
    return said if isinstance(said, int) else 0


def _counts(pod: dict[str, Any]) -> bool:
    """Return whether a pod counts: completed, evicted and terminating ones are replaced."""
    ended = pod.get("status", {}).get("phase") in ("Succeeded", "Failed")
    return not ended and not pod["metadata"].get("deletionTimestamp")


def _is_ready(pod: dict[str, Any]) -> bool:
    states = pod.get("status", {}).get("conditions") or []
    return any(c.get("type") == "Ready" and c.get("status") == "True" for c in states)


def _maker(pod: dict[str, Any]) -> str:
    """Return kind and name of the workload of a pod."""
    for owner in pod["metadata"].get("ownerReferences") or []:
        kind, name = str(owner.get("kind")), str(owner.get("name", ""))
        if kind == "ReplicaSet":
            return "Deployment/" + name.rpartition("-")[0]
        if kind in WANTED:
            return kind + "/" + name
    return "Pod/" + str(pod["metadata"]["name"])


def _not_made(key: str, items: list[dict[str, Any]], warnings: dict[str, str]) -> str:
    """Return why a workload has too few pods, such as an exhausted quota."""
    kind, _, name = key.partition("/")
    for item in items:
        if item.get("kind") == kind and item["metadata"]["name"] == name:
            for state in item.get("status", {}).get("conditions") or []:
                if state.get("type") == "ReplicaFailure" and state.get("message"):
                    return _line(str(state["message"]))
    made_by = "ReplicaSet/" + name + "-" if kind == "Deployment" else key
    return next((_line(said) for at, said in warnings.items() if at.startswith(made_by)), "")


def trouble(pod: dict[str, Any], warnings: dict[str, str]) -> Facts:
    """Return why a pod is not ready: reason and message of kubelet or the scheduler."""
    name, status = pod["metadata"]["name"], pod.get("status", {})
    kind, said, image = _of_containers(pod)
    warning = warnings.get("Pod/" + name, "")
    if kind in STARTS:
        unplaced = _unplaced(status)
        if unplaced:
            kind, said = "Unschedulable", unplaced
        elif warning:
            kind, _, said = warning.partition(": ")
        else:
            kind = kind or "NotReady"
    return {
        "name": name,
        "host": str(pod.get("spec", {}).get("nodeName", "")),
        "kind": _line(kind),
        "said": _line(said or warning.partition(": ")[2]),
        "image": image,
        "age_s": _age(str(pod["metadata"].get("creationTimestamp", ""))),
    }


def _age(made: str) -> int | None:
    """Return the seconds since then, by this host's clock."""
    try:
        return max(0, int(time.time()) - calendar.timegm(time.strptime(made, "%Y-%m-%dT%H:%M:%SZ")))
    except ValueError:
        return None


def _of_containers(pod: dict[str, Any]) -> tuple[str, str, str]:
    """Return reason, message and image of the first container that does not run; empty if all run."""
    status, spec = pod.get("status", {}), pod.get("spec", {})
    asked = {
        c.get("name"): str(c.get("image", ""))
        for part in ("initContainers", "containers")
        for c in spec.get(part) or []
    }
    later = ("", "", "")
    for part in ("initContainerStatuses", "containerStatuses"):
        for one in status.get(part) or []:
            state, last = one.get("state") or {}, (one.get("lastState") or {}).get("terminated")
            image = asked.get(one.get("name"), "")
            ended = state.get("terminated") or {}
            if ended and ended.get("reason") != "Completed":
                return str(ended.get("reason", "Error")), _exit(ended), image
            waiting = state.get("waiting") or {}
            reason = str(waiting.get("reason", ""))
            if reason in CRASHED and last:
                killed = last.get("reason") == "OOMKilled"
                return ("OOMKilled" if killed else reason), _exit(last), image
            if reason not in STARTS:
                return reason, str(waiting.get("message", "")), image
            if waiting and not later[0]:
                later = (reason, "", image)
    return later


def _exit(ended: dict[str, Any]) -> str:
    told = str(ended.get("message") or "")
    return (
        "its container ended with "
        + str(ended.get("exitCode", "no code"))
        + (": " + told if told else "")
    )


def _unplaced(status: dict[str, Any]) -> str:
    for state in status.get("conditions") or []:
        if state.get("type") == "PodScheduled" and state.get("status") == "False":
            return str(state.get("message") or "the scheduler has placed it on no host")
    return ""


def _line(said: str) -> str:
    """Return a message on one line; kubelet's may quote several lines of a program."""
    return " ".join(said.split())[:300]
