"""The scheduler as seen by a control plane; nothing on other hosts."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import zlib

from appliance.probe import files
from appliance.probe.ask import Ask
from appliance.probe.problems import Late, Unreadable
from appliance.stages.kubernetes.collect import platform
from appliance.stages.kubernetes.collect.api import Api
from appliance.stages.kubernetes.collect.pods import pods
from appliance.stages.scheduler.collect.images import images

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from appliance.probe.ask import Facts

ADMIN = "/etc/kubernetes/admin.conf"
RECORDS = "/api/v1/secrets?labelSelector=owner%3Dhelm%2Cstatus%21%3Dsuperseded"
"""Path of Helm's records: a secret for each revision of a release (Helm 3 and 4); earlier ones are superseded."""
RDMA = "rdma/fabric"
DEFAULTS = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
"""Annotations of a default StorageClass: Kubernetes reads both the old and the new one."""
OURS = "appliance"
KAI = "kai-scheduler"
DIGITS = 9
EVERYONE = "system:authenticated"
"""The group of every authenticated user."""
QUEUES = "/apis/scheduling.run.ai/v2/queues"
SYSTEM = "kube-system"
RELEASE = "meta.helm.sh/release-name"
ENFORCERS = frozenset({"calico-node", "cilium", "canal", "antrea-agent", "kube-router"})
"""Names of DaemonSets of networks that enforce policies."""
CILIUM = "cilium"
MANAGED = "?labelSelector=app.kubernetes.io%2Fmanaged-by%3Dappliance"
VOLUMES = {
    "PersistentVolume": "/api/v1/persistentvolumes" + MANAGED,
    "PersistentVolumeClaim": "/api/v1/persistentvolumeclaims" + MANAGED,
}
KINDS = {
    "Node": "/api/v1/nodes",
    "StorageClass": "/apis/storage.k8s.io/v1/storageclasses",
    "NetworkPolicy": "/apis/networking.k8s.io/v1/networkpolicies",
    "DaemonSet": "/apis/apps/v1/daemonsets",
}
PARTS = (
    *("releases", "pods", "rdma", "default_classes"),
    *("policies", "enforcers", "images", "trees", "stopped", "lacking", "queues", "submissions"),
)


def collect(ask: Ask) -> Facts:
    """The area ``scheduler``."""
    if not files.exists(ask.path(ADMIN)):
        return {"scheduler": None}
    found: Facts = dict.fromkeys(PARTS)
    try:
        api = Api(ask, ADMIN)
        found["releases"] = releases(api.items(RECORDS, "Secret"))
        spaces = sorted({release["namespace"] for release in found["releases"]})
        lists = {space: platform.objects(api, space) for space in spaces}
        told = {space: platform.warnings(api, space, items) for space, items in lists.items()}
        found["pods"] = [
            pod
            for space, items in lists.items()
            for pod in pods(_of_kind(items, "Pod"), told[space])
        ]
        found["lacking"] = [
            one
            for space, items in lists.items()
            for one in platform.lacking(platform.judge(items, told[space]))
        ]
        found["stopped"] = [one for items in lists.values() for one in stopped(items)]
        rest = _all(api, KINDS)
        found["rdma"] = offered(rest, RDMA)
        found["default_classes"] = default_classes(rest)
        found["policies"] = policies(rest, spaces)
        found["enforcers"] = [_with_mode(api, one) for one in enforcers(rest)]
        lists[SYSTEM] = _pods(api, SYSTEM)
        found["images"] = [
            one for space, items in lists.items() for one in images(_of_kind(items, "Pod"), space)
        ]
        found["trees"] = trees(_all(api, VOLUMES))
        if ask.submissions and KAI in {release["name"] for release in found["releases"]}:
            found["queues"] = queues(api.items(QUEUES, "Queue"))
            found["submissions"] = dict(_submissions(ask, api))
    except Unreadable as error:
        ask.problem("scheduler", error)
    return {"scheduler": found}


def releases(secrets: list[dict[str, Any]]) -> list[Facts]:
    """Return each release by its newest record. Raises Unreadable.

    Secrets without all the labels have some of Helm's, but are not records.
    """
    newest: dict[tuple[str, str], tuple[int, str, str]] = {}
    for item in secrets:
        meta, data = item["metadata"], item.get("data") or {}
        labels = meta.get("labels") or {}
        name, status, revision = (labels.get(key, "") for key in ("name", "status", "version"))
        if not (name and status and revision.isdigit() and data.get("release")):
            continue
        key = (meta["namespace"], name)
        newest[key] = max(newest.get(key, (0, "", "")), (int(revision), status, data["release"]))
    return [_release(space, name, *newest[space, name]) for space, name in sorted(newest)]


def _release(space: str, name: str, revision: int, status: str, record: str) -> Facts:
    title, version = chart(record)
    return {
        "name": name,
        "namespace": space,
        "revision": revision,
        "status": status,
        "chart": title,
        "version": version,
    }


def chart(payload: str) -> tuple[str, str]:
    """Return name and version of the chart in a record. Raises Unreadable."""
    try:
        packed = base64.b64decode(base64.b64decode(payload))
        # The window says gzip or zlib by itself; Helm writes gzip.
        about = json.loads(zlib.decompress(packed, 47))["chart"]["metadata"]
        return str(about["name"]), str(about["version"])
    except (binascii.Error, zlib.error, ValueError, KeyError, TypeError):
        raise Unreadable("a record of Helm's cannot be read") from None


def offered(items: list[dict[str, Any]], resource: str) -> dict[str, int]:
    """Return the amount that each node of a list offers; 0 without a device plugin. Raises Unreadable."""
    try:
        return {
            item["metadata"]["name"]: _amount(item["status"].get("allocatable", {}).get(resource))
            for item in _of_kind(items, "Node")
        }
    except (KeyError, TypeError, AttributeError):
        raise Unreadable("the API returned no list of nodes") from None


def _amount(said: object) -> int:
    """Return a count of devices; 0 for other quantities, such as 1k, which a kubelet may report of its node."""
    text = str(said or "0")
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= DIGITS else 0


def default_classes(items: list[dict[str, Any]]) -> list[str]:
    """Return StorageClasses of a list that are marked as the default. Raises Unreadable."""
    try:
        classes = _of_kind(items, "StorageClass")
        marks = {i["metadata"]["name"]: i["metadata"].get("annotations") for i in classes}
    except (KeyError, TypeError):
        raise Unreadable("the API returned no list of StorageClasses") from None
    return sorted(
        name
        for name, mark in marks.items()
        if "true" in [(mark or {}).get(key) for key in DEFAULTS]
    )


def policies(items: list[dict[str, Any]], spaces: list[str]) -> list[Facts]:
    """Return NetworkPolicies of a list in these namespaces, and ours in others. Raises Unreadable."""
    try:
        return [
            {
                "name": item["metadata"]["name"],
                "namespace": item["metadata"]["namespace"],
                "release": (item["metadata"].get("annotations") or {}).get(RELEASE, ""),
                "admits": bool(item["spec"].get("ingress")),
                "digest": digest(item["spec"]),
            }
            for item in _of_kind(items, "NetworkPolicy")
            if item["metadata"]["namespace"] in spaces or item["metadata"]["name"] == OURS
        ]
    except (KeyError, TypeError):
        raise Unreadable("the API returned no list of NetworkPolicies") from None


def digest(content: object) -> str:
    """Return the digest of a content, independent of the order of keys."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def enforcers(items: list[dict[str, Any]]) -> list[Facts]:
    """Return DaemonSets of a list that enforce NetworkPolicies. Raises Unreadable."""
    try:
        return [
            {
                "name": item["metadata"]["name"],
                "namespace": item["metadata"]["namespace"],
                "ready": int(item["status"].get("numberReady", 0)),
                "wanted": int(item["status"].get("desiredNumberScheduled", 0)),
            }
            for item in _of_kind(items, "DaemonSet")
            if item["metadata"]["name"] in ENFORCERS
        ]
    except (KeyError, TypeError, ValueError):
        raise Unreadable("the API returned no list of DaemonSets") from None


def trees(items: list[dict[str, Any]]) -> list[Facts]:
    """Return claims of a list, each with its volume. Raises Unreadable."""
    try:
        volumes = {i["metadata"]["name"]: i["spec"] for i in _of_kind(items, "PersistentVolume")}
        return [
            _tree(item, volumes.get(item["spec"].get("volumeName", ""), {}))
            for item in _of_kind(items, "PersistentVolumeClaim")
        ]
    except (KeyError, TypeError, AttributeError):
        raise Unreadable("the API returned no list of volumes") from None


def _tree(claim: dict[str, Any], volume: dict[str, Any]) -> Facts:
    meta, holder = claim["metadata"], volume.get("claimRef") or {}
    own = (holder.get("namespace"), holder.get("name")) == (meta["namespace"], meta["name"])
    served = volume.get("nfs") or {}
    return {
        "name": meta["name"],
        "namespace": meta["namespace"],
        "phase": claim.get("status", {}).get("phase", ""),
        "volume": claim["spec"].get("volumeName", ""),
        "server": served.get("server", ""),
        "path": served.get("path", ""),
        "options": list(volume.get("mountOptions") or []),
        "held": own and volume.get("persistentVolumeReclaimPolicy") == "Retain",
    }


def _of_kind(items: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [item for item in items if item["kind"] == kind]


def stopped(items: list[dict[str, Any]]) -> list[str]:
    """Return namespace and name of the Deployments of a list that have 0 replicas."""
    return [
        item["metadata"]["namespace"] + "/" + item["metadata"]["name"]
        for item in _of_kind(items, "Deployment")
        if (item.get("spec") or {}).get("replicas") == 0
    ]


def queues(items: list[dict[str, Any]]) -> list[Facts]:
    """Return KAI's queues of a list: parent, pool and GPUs. Raises Unreadable."""
    try:
        return [_queue(item["metadata"]["name"], item["spec"]) for item in items]
    except (KeyError, TypeError, AttributeError):
        raise Unreadable("the API returned no list of queues") from None


def _queue(name: str, spec: dict[str, Any]) -> Facts:
    gpus = (spec.get("resources") or {}).get("gpu") or {}
    return {
        "name": name,
        "parent": spec.get("parentQueue") or "",
        "gpu_quota": gpus.get("quota", 0),
        "gpu_limit": gpus.get("limit", 0),
    }


def _submissions(ask: Ask, api: Api) -> Iterator[tuple[str, str]]:
    """Return by namespace why a member may not submit a pod; empty: the member may."""
    for space, (user, group, pod) in ask.submissions.items():
        groups = (group, EVERYONE) if group else (EVERYONE,)
        path = f"/api/v1/namespaces/{space}/pods"
        try:
            yield space, api.refusal(path, pod, user, groups)
        except Late as error:
            yield space, str(error)


def _with_mode(api: Api, one: Facts) -> Facts:
    if one["name"] != CILIUM:
        return one
    named = "?fieldSelector=metadata.name%3Dcilium-config"
    found = api.items(f"/api/v1/namespaces/{one['namespace']}/configmaps{named}", "ConfigMap")
    modes = [(item.get("data") or {}).get("enable-policy", "") for item in found]
    return {**one, "mode": str(modes[0]) if modes else ""}


def _pods(api: Api, space: str) -> list[dict[str, Any]]:
    return api.items(f"/api/v1/namespaces/{space}/pods", "Pod")


def _all(api: Api, paths: dict[str, str]) -> list[dict[str, Any]]:
    return [item for kind, path in paths.items() for item in api.items(path, kind)]
