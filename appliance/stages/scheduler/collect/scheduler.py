"""The scheduler as a control plane knows it; nothing on other hosts."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import zlib

from appliance.probe import files
from appliance.probe.ask import Ask
from appliance.probe.lines import lines_of
from appliance.probe.problems import Unreadable
from appliance.stages.kubernetes.collect.pods import pods
from appliance.stages.scheduler.collect.images import images

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from appliance.probe.ask import Facts

ADMIN = "/etc/kubernetes/admin.conf"
CURRENT = "owner=helm,status!=superseded"
"""Helm keeps each revision of a release in a secret (Helm 3 and 4); superseded is one that another has followed."""
RECORDS = (
    "{range .items[*]}{.metadata.namespace} {.metadata.labels.name} {.metadata.labels.version} "
    '{.metadata.labels.status} {.data.release}{"\\n"}{end}'
)
RECORDS_OF_ALL = ["get", "secrets", "--all-namespaces", "-l", CURRENT, "-o", "jsonpath=" + RECORDS]
RDMA = "rdma/fabric"
DEFAULTS = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
"""Kubernetes heeds the old annotation as well as the new one."""
OURS = "appliance"
SYSTEM = "kube-system"
RELEASE = "meta.helm.sh/release-name"
ENFORCERS = frozenset({"calico-node", "cilium", "canal", "antrea-agent", "kube-router"})
"""DaemonSets of networks that are known to enforce policies, by their projects' names."""
CILIUM = "cilium"
EVERYWHERE = "*"
MANAGED = "app.kubernetes.io/managed-by=appliance"
VOLUMES = "persistentvolumes,persistentvolumeclaims"
KINDS = "nodes,storageclasses,networkpolicies,daemonsets"
PARTS = (
    *("releases", "pods", "rdma", "default_classes"),
    *("policies", "enforcers", "images", "trees"),
)


def collect(ask: Ask) -> Facts:
    """The area ``scheduler``."""
    if not (ask.has("kubectl") and files.exists(ask.path(ADMIN))):
        return {"scheduler": None}
    found: Facts = dict.fromkeys(PARTS)
    try:
        found["releases"] = releases(_kubectl(ask, RECORDS_OF_ALL))
        spaces = sorted({release["namespace"] for release in found["releases"]})
        lists = {space: _get(ask, "pods", space) for space in spaces}
        found["pods"] = [pod for said in lists.values() for pod in pods(said)]
        rest = _get(ask, KINDS, EVERYWHERE)
        found["rdma"] = offered(rest, RDMA)
        found["default_classes"] = default_classes(rest)
        found["policies"] = policies(rest, spaces)
        found["enforcers"] = [_with_mode(ask, one) for one in enforcers(rest)]
        lists[SYSTEM] = _get(ask, "pods", SYSTEM)
        found["images"] = [one for space, said in lists.items() for one in images(said, space)]
        found["trees"] = trees(_get(ask, VOLUMES, EVERYWHERE, MANAGED))
    except Unreadable as error:
        ask.problem("scheduler", error)
    return {"scheduler": found}


def releases(said: str) -> list[Facts]:
    """Each release by its newest record, from lines of namespace, name, revision, status and record. Raises Unreadable.

    Lines with fewer words have Helm's label, but are not records.
    """
    newest: dict[tuple[str, str], list[str]] = {}
    for line in lines_of(said):
        words = line.split()
        if len(words) != 5 or not words[2].isdigit():
            continue
        known = newest.setdefault((words[0], words[1]), words)
        if int(known[2]) < int(words[2]):
            newest[words[0], words[1]] = words
    return [_release(*newest[key]) for key in sorted(newest)]


def _release(space: str, name: str, revision: str, status: str, record: str) -> Facts:
    title, version = chart(record)
    return {
        "name": name,
        "namespace": space,
        "revision": int(revision),
        "status": status,
        "chart": title,
        "version": version,
    }


def chart(payload: str) -> tuple[str, str]:
    """Name and version of the chart in a record. Raises Unreadable."""
    try:
        packed = base64.b64decode(base64.b64decode(payload))
        # The window says gzip or zlib by itself; Helm writes gzip.
        about = json.loads(zlib.decompress(packed, 47))["chart"]["metadata"]
        return str(about["name"]), str(about["version"])
    except (binascii.Error, zlib.error, ValueError, KeyError, TypeError):
        raise Unreadable("a record of Helm's cannot be read") from None


def offered(said: dict[str, Any], resource: str) -> dict[str, int]:
    """The amount that each node of a list offers; 0 without a device plugin. Raises Unreadable."""
    try:
        return {
            item["metadata"]["name"]: int(item["status"].get("allocatable", {}).get(resource, 0))
            for item in _of_kind(said, "Node")
        }
    except (KeyError, TypeError, ValueError):
        raise Unreadable("kubectl printed no list of nodes") from None


def default_classes(said: dict[str, Any]) -> list[str]:
    """StorageClasses of a list that are marked as the default. Raises Unreadable."""
    try:
        classes = _of_kind(said, "StorageClass")
        marks = {i["metadata"]["name"]: i["metadata"].get("annotations") for i in classes}
    except (KeyError, TypeError):
        raise Unreadable("kubectl printed no list of StorageClasses") from None
    return sorted(
        name
        for name, mark in marks.items()
        if "true" in [(mark or {}).get(key) for key in DEFAULTS]
    )


def policies(said: dict[str, Any], spaces: list[str]) -> list[Facts]:
    """NetworkPolicies of a list that lie in these namespaces, and ours in others. Raises Unreadable."""
    try:
        return [
            {
                "name": item["metadata"]["name"],
                "namespace": item["metadata"]["namespace"],
                "release": (item["metadata"].get("annotations") or {}).get(RELEASE, ""),
                "admits": bool(item["spec"].get("ingress")),
                "digest": digest(item["spec"]),
            }
            for item in _of_kind(said, "NetworkPolicy")
            if item["metadata"]["namespace"] in spaces or item["metadata"]["name"] == OURS
        ]
    except (KeyError, TypeError):
        raise Unreadable("kubectl printed no list of NetworkPolicies") from None


def digest(content: object) -> str:
    """The digest of a content, independent of the order of keys."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def enforcers(said: dict[str, Any]) -> list[Facts]:
    """DaemonSets of a list that enforce NetworkPolicies. Raises Unreadable."""
    try:
        return [
            {
                "name": item["metadata"]["name"],
                "namespace": item["metadata"]["namespace"],
                "ready": int(item["status"].get("numberReady", 0)),
                "wanted": int(item["status"].get("desiredNumberScheduled", 0)),
            }
            for item in _of_kind(said, "DaemonSet")
            if item["metadata"]["name"] in ENFORCERS
        ]
    except (KeyError, TypeError, ValueError):
        raise Unreadable("kubectl printed no list of DaemonSets") from None


def trees(said: dict[str, Any]) -> list[Facts]:
    """Claims of a list, each with the volume it names. Raises Unreadable."""
    try:
        volumes = {i["metadata"]["name"]: i["spec"] for i in _of_kind(said, "PersistentVolume")}
        return [
            _tree(item, volumes.get(item["spec"].get("volumeName", ""), {}))
            for item in _of_kind(said, "PersistentVolumeClaim")
        ]
    except (KeyError, TypeError, AttributeError):
        raise Unreadable("kubectl printed no list of volumes") from None


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


def _of_kind(said: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [item for item in said["items"] if item["kind"] == kind]


def _with_mode(ask: Ask, one: Facts) -> Facts:
    if one["name"] != CILIUM:
        return one
    words = ["get", "configmap", "cilium-config", "--ignore-not-found"]
    path = "jsonpath={.data.enable-policy}"
    return {**one, "mode": _kubectl(ask, ["-n", one["namespace"], *words, "-o", path]).strip()}


def _get(ask: Ask, kind: str, space: str = "", labels: str = "") -> dict[str, Any]:
    chosen = ["-l", labels] if labels else []
    where = ["--all-namespaces"] if space == EVERYWHERE else ["-n", space] if space else []
    try:
        found: dict[str, Any] = json.loads(
            _kubectl(ask, ["get", kind, *where, *chosen, "-o", "json"])
        )
    except ValueError:
        raise Unreadable(f"kubectl printed no list of {kind}") from None
    return found


def _kubectl(ask: Ask, words: list[str]) -> str:
    known = ["kubectl", "--kubeconfig", ask.path(ADMIN), "--request-timeout", "5s"]
    return ask.run([*known, *words], 8.0)
