"""This host as a node of Kubernetes: node and pods through kubelet's identity, and the devices that kubelet allocated to pods."""

from __future__ import annotations

import json
import subprocess  # noqa: TID251 - this program runs on hosts and has its own door
from typing import TYPE_CHECKING

from appliance.mig.layout import Refused
from appliance.probe import files
from appliance.probe.lines import lines_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Resource = dict[str, Any]

KUBECONFIG = "/etc/kubernetes/kubelet.conf"
"""kubelet's own: it may change this node and delete pods of this node only (NodeRestriction)."""
CHECKPOINT = "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint"
"""Allocated devices by pod, in the checkpoint of kubelet's device manager (Kubernetes 1.10 to 1.36)."""
PODS = "/var/lib/kubelet/pods"
VENDOR = "nvidia.com/"
WHOLE = "gpu"
PART = VENDOR + "mig-"
PLUGINS = (
    ("gpu-operator", "app", "nvidia-device-plugin-daemonset"),
    ("nvidia-device-plugin", "app.kubernetes.io/name", "nvidia-device-plugin"),
)
"""Namespace and label of NVIDIA's device plugin in either chart; it reads MIG layouts only when it starts
(k8s-device-plugin, issue 992, 2024-10).
"""
DRAINED, OWNER = "appliance/drained", "appliance/owner"
"""Annotation with the reason of the appliance's cordon; taint of a host of another scheduler."""
REASON = "appliance: MIG on demand"
"""This program's reason for a cordon. A drain in the meantime replaces the reason and takes over the cordon."""
AT_WORK = "appliance/mig-at-work"
"""Annotation with the serial number of the request, from the cordon to the end of the change: a drain waits for it."""
UNIT = "appliance-mig-demand.service"
WISH, STATE = "appliance/mig-wish", "appliance/mig-state"
CACHE = "/run/appliance-mig/kubectl"
STATIC = "kubernetes.io/config.hash"
CONFLICT = "(Conflict)"
"""kubectl's text for a change of a resource that has changed since."""
OVER = frozenset({"Succeeded", "Failed"})
NO_WAIT = ("--wait=false", "--ignore-not-found")
SECONDS = 60
TRIES = 5
"""kubelet changes its node, too: number of attempts with the node read again."""


class Conflict(Refused):
    """The node changed after it was read."""


class Node:
    """The node of this host. All methods raise Refused if there is no answer or an unreadable one."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.resource: Resource = {}
        self.pods: list[Resource] = []

    def look(self) -> None:
        """Read the node and its pods."""
        self.resource = self._json("get", "node", self.name)
        chosen = f"spec.nodeName={self.name}"
        found = self._json("get", "pods", "--all-namespaces", "--field-selector", chosen)
        self.pods = list(found.get("items") or ())

    def annotation(self, name: str) -> str:
        """Return an annotation of the node."""
        return str((self.resource["metadata"].get("annotations") or {}).get(name, ""))

    def document(self, name: str) -> dict[str, Any]:
        """Return an annotation that is a JSON object; {} for any other."""
        try:
            found = json.loads(self.annotation(name))
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}

    @property
    def is_cordoned(self) -> bool:
        """Whether the node accepts no new pods."""
        return bool(self.resource.get("spec", {}).get("unschedulable"))

    @property
    def is_held(self) -> bool:
        """Whether the node accepts no new pods because of this program."""
        return self.is_cordoned and self._is_marked

    @property
    def left(self) -> str | None:
        """Return the request that this program was working on, "" for none in particular; None if there is no work."""
        notes = self.resource["metadata"].get("annotations") or {}
        told = notes.get(AT_WORK, "" if self._is_marked else None)
        return None if told is None else str(told)

    @property
    def _is_marked(self) -> bool:
        return self.annotation(DRAINED) == REASON

    @property
    def closed(self) -> str:
        """Return why nothing may be changed here for pods of the cluster, "" if it may: a drain, a cordon, another owner."""
        taints, reason = self.resource.get("spec", {}).get("taints") or (), self.annotation(DRAINED)
        owners = [t.get("value", "") for t in taints if t.get("key") == OWNER]
        if owners:
            return f"it is a host of {owners[0]}"
        if reason and not self._is_marked:
            return f"it is drained ({reason})"
        return "it is cordoned" if self.is_cordoned and not self._is_marked else ""

    def offers(self) -> dict[str, int]:
        """Return the allocatable devices: MIG devices by profile, and whole GPUs as ``WHOLE``."""
        told = self.resource.get("status", {}).get("allocatable") or {}
        parts = {k[len(PART) :]: int(v) for k, v in told.items() if k.startswith(PART)}
        return {**parts, WHOLE: int(told.get(VENDOR + WHOLE, 0))}

    def hold(self, serial: str) -> None:
        """Cordon the node during a change. Raises Refused if another program has cordoned it."""

        def hold() -> None:
            if self.closed:
                raise Refused(f"this host cannot change its GPUs now: {self.closed}")
            self._patch({DRAINED: REASON, AT_WORK: serial}, {"unschedulable": True})

        self._as_read(hold)

    def give_back(self) -> None:
        """Uncordon the node and end the change; a drain in the meantime keeps its cordon."""

        def give_back() -> None:
            if self._is_marked:
                self._patch({DRAINED: None, AT_WORK: None}, {"unschedulable": None})
            elif self.left is not None:
                self._patch({AT_WORK: None})

        self._as_read(give_back)

    def tell(self, report: str) -> None:
        """Write the report where the cluster reads it."""
        self._send({"metadata": {"annotations": {STATE: report}}})

    def _as_read(self, change: Callable[[], None]) -> None:
        """Change the node, and retry with the node read again if it was changed in the meantime."""
        for left in reversed(range(TRIES)):
            try:
                change()
                break
            except Conflict:
                if not left:
                    raise
                self.look()
        self.look()

    def _patch(self, annotations: dict[str, str | None], spec: Resource | None = None) -> None:
        """Raises Conflict if the node was changed since it was read."""
        version = self.resource["metadata"]["resourceVersion"]
        meta = {"annotations": annotations, "resourceVersion": version}
        self._send({"metadata": meta, **({"spec": spec} if spec else {})})

    def _send(self, change: Resource) -> None:
        self._run("patch", "node", self.name, "--type", "merge", "--patch", json.dumps(change))

    def restart_plugin(self) -> None:
        """Restart NVIDIA's device plugin on this node; another plugin detects changes itself."""
        for pod in self.pods:
            meta = pod["metadata"]
            labels, space = meta.get("labels") or {}, meta["namespace"]
            if any(space == s and labels.get(key) == value for s, key, value in PLUGINS):
                self._run("delete", "pod", meta["name"], "--namespace", space, *NO_WAIT)

    def given(self) -> set[str]:
        """Return devices of pods. A device counts as allocated unless its pod is known to have ended."""
        over = {uid for pod in self.pods if _is_over(pod) for uid in _uids(pod)}
        known = {uid for pod in self.pods for uid in _uids(pod)}
        return {
            device
            for uid, devices in _entries().items()
            if uid not in over and (uid in known or files.exists(f"{PODS}/{uid}"))
            for device in devices
        }

    def arriving(self) -> list[str]:
        """Return pods of this node that request GPUs and have none allocated yet."""
        entries = _entries()
        return [
            f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
            for pod in self.pods
            if not _is_over(pod) and _asks(pod) and not entries.keys() & _uids(pod)
        ]

    def _json(self, *words: str) -> Resource:
        try:
            found = json.loads(self._run(*words, "--output", "json"))
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise Refused(f"kubectl {words[0]} {words[1]}: the answer is not a JSON object")
        return found

    def _run(self, *words: str) -> str:
        settings = ("--kubeconfig", KUBECONFIG, "--cache-dir", CACHE, "--request-timeout", "20s")
        argv = ["kubectl", *settings, *words]
        try:
            done = subprocess.run(
                argv,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                timeout=SECONDS,
                check=False,
            )
        except (OSError, subprocess.SubprocessError) as error:
            why = getattr(error, "strerror", None) or type(error).__name__
            raise Refused(f"kubectl {words[0]} {words[1]}: {why}") from None
        if done.returncode:
            said = (lines_of(done.stderr.strip()) or ["no reason given"])[-1]
            kind = Conflict if CONFLICT in said else Refused
            raise kind(f"kubectl {words[0]} {words[1]}: {said[:300]}")
        return done.stdout


def _entries() -> dict[str, set[str]]:
    """Return GPUs and MIG devices by UID of their pod. Raises Refused."""
    found: dict[str, set[str]] = {}
    try:
        for one in json.loads(files.read(CHECKPOINT))["Data"]["PodDeviceEntries"] or ():
            if one["ResourceName"].startswith(VENDOR):
                devices = found.setdefault(str(one["PodUID"]), set())
                devices.update(name.partition("::")[0] for name in _devices(one["DeviceIDs"]))
    except OSError as error:
        raise Refused(f"the GPUs of pods are unknown: {CHECKPOINT}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise Refused(f"the GPUs of pods are unknown: {CHECKPOINT} cannot be read") from None
    return found


def _devices(said: Any) -> list[str]:
    """By NUMA node since Kubernetes 1.20, before that a plain list."""
    return [name for names in said.values() for name in names] if isinstance(said, dict) else said


def _uids(pod: Resource) -> set[str]:
    """Return kubelet's identifier of a pod: for a static pod, the digest of its file."""
    meta = pod["metadata"]
    return {str(meta.get("uid", "")), str((meta.get("annotations") or {}).get(STATIC, ""))} - {""}


def _is_over(pod: Resource) -> bool:
    return (pod.get("status") or {}).get("phase") in OVER


def _asks(pod: Resource) -> bool:
    spec = pod.get("spec", {})
    boxes = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    limits = [(box.get("resources") or {}).get("limits") or {} for box in boxes]
    return any(k.startswith(VENDOR) and str(v) != "0" for one in limits for k, v in one.items())
