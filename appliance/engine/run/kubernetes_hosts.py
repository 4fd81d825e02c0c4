"""Nodes and pods of Kubernetes: cordons nodes and evicts pods through the API, which honours disruption budgets."""

from typing import Any

from appliance.adapters.kubernetes_nodes import Nodes, Resource
from appliance.engine.run.schedulers import Ours, SchedulerHost, Workload, is_ours, runs
from appliance.engine.session import Session
from appliance.errors import ClusterFailed
from appliance.mig import node as on_demand
from appliance.models.site import Owner

DRAINED = on_demand.DRAINED
"""Annotation with the reason of our cordon; stage kubernetes reverts such a cordon."""

DIVIDED = Workload("MIG on demand, which partitions GPUs there", is_ending=True)

TAINT = on_demand.OWNER
MIRROR = "kubernetes.io/config.mirror"
LONGEST_GRACE = 600
"""Seconds. The maximum that policy appliance-end allows a project's pods."""
OVER = frozenset({"Succeeded", "Failed"})
CORDON = "node.kubernetes.io/unschedulable"
NO_NEW = "NoSchedule"
"""The taint of a cordoned node, and its effect."""
BY_HAND = "cordoned by hand"
"""The reason of a cordon without one."""


class KubernetesHosts:
    """A Scheduler."""

    owner = Owner.KUBERNETES

    def __init__(self, session: Session, nodes: Nodes) -> None:
        self._session = session
        self._nodes = nodes

    def look(self, host: str) -> SchedulerHost | None:
        """See Scheduler."""
        node = self._node(host)
        if node is None:
            return None
        spec, reason = node.get("spec", {}), _reason(node)
        taints = [t.get("value", "") for t in spec.get("taints") or [] if t.get("key") == TAINT]
        owner = Owner(taints[0]) if taints and taints[0] in set(Owner) else Owner.KUBERNETES
        words = ["ready" if _ready(node) else "not ready"]
        if owner is not self.owner:
            words.append(f"a host of {owner}")
        if spec.get("unschedulable"):
            words.append(f"cordoned ({reason})" if reason else "cordoned")
        takes = owner is self.owner and _ready(node) and not spec.get("unschedulable")
        work = tuple(_name(pod) for pod in self._nodes.pods(host) if is_work(pod))
        owner_now = None if is_ours(reason) else owner
        if spec.get("unschedulable"):
            reason = reason or BY_HAND
        return SchedulerHost(owner_now, takes, ", ".join(words), work, reason)

    def take_out(self, host: str, why: str, over: Ours | None = None) -> None:
        """See Scheduler."""
        node = self._node(host)
        if node is None:
            return
        cordoned, reason = bool(node.get("spec", {}).get("unschedulable")), _reason(node)
        ours = (over or is_ours)(reason) or reason == on_demand.REASON
        if reason != why and (not cordoned or ours):
            marked = {"annotations": {DRAINED: str(why)}}
            self._nodes.patch(host, {"metadata": marked, "spec": {"unschedulable": True}})

    def clear(self, host: str, force: bool) -> list[Workload]:
        """See Scheduler. Pods that a controller recreates elsewhere are moved; others run to their end, or are evicted by force."""
        node = self._node(host)
        if node is None:
            return []
        divided = on_demand.AT_WORK in (node.get("metadata", {}).get("annotations") or {})
        # An interrupted drain has left the mark, which changes nothing now.
        first = [DIVIDED] if divided and runs(self._session, host, on_demand.UNIT) else []
        moved = (self._moved(pod, force) for pod in self._nodes.pods(host) if is_work(pod))
        return [*first, *moved]

    def give_back(self, host: str, ours: Ours | None = None) -> None:
        """See Scheduler."""
        node = self._node(host)
        if node is None:
            return
        is_kept_out = bool(node.get("spec", {}).get("unschedulable") or _reason(node))
        if is_kept_out and (ours or is_ours)(_reason(node)):
            marked = {"annotations": {DRAINED: None}}
            self._nodes.patch(host, {"metadata": marked, "spec": {"unschedulable": None}})

    def forget(self, host: str) -> None:
        """See Scheduler."""
        self._nodes.delete(host)

    def _moved(self, pod: Resource, force: bool) -> Workload:
        """One step of removing a pod, and its progress."""
        meta = pod["metadata"]
        if meta.get("deletionTimestamp"):
            return self._hurried(pod, force)
        if ends_by_itself(pod) and not force:
            return Workload(_name(pod))
        if self._nodes.evict(meta.get("namespace", "default"), meta["name"]):
            return Workload(_name(pod), is_ending=True)
        return Workload(f"{_name(pod)} (its disruption budget allows no eviction now)")

    def _hurried(self, pod: Resource, force: bool) -> Workload:
        """A pod that is being deleted, within its own grace period; a longer one chosen by its owner would block the host."""
        meta = pod["metadata"]
        held = (meta.get("deletionGracePeriodSeconds") or 0) > LONGEST_GRACE
        if held and (force or not ends_by_itself(pod)):
            own = pod.get("spec", {}).get("terminationGracePeriodSeconds")
            grace = LONGEST_GRACE if own is None else min(own, LONGEST_GRACE)
            self._nodes.evict(meta.get("namespace", "default"), meta["name"], grace)
        elif held:
            return Workload(
                f"{_name(pod)} (deleted with a grace period of {meta['deletionGracePeriodSeconds']} s; --force ends it)"
            )
        return Workload(_name(pod), is_ending=True)

    def _node(self, host: str) -> Resource | None:
        try:
            return self._nodes.node(host)
        except ClusterFailed as error:
            if runs(self._session, host, "kubelet"):
                raise ClusterFailed(
                    f"kubelet runs on {host}, but the Kubernetes API did not report this node ({error.message})",
                    "pods may run there: repair the API, or stop kubelet",
                    error.host,
                ) from None
            return None


def is_work(pod: Resource) -> bool:
    """Return whether a drain concerns a pod: not finished pods, nor static pods and those of DaemonSets."""
    meta, phase = pod.get("metadata", {}), pod.get("status", {}).get("phase")
    own = MIRROR in (meta.get("annotations") or {}) or _controller(pod) in {"DaemonSet", "Node"}
    return phase not in OVER and not own and not _comes_back(pod)


def ends_by_itself(pod: Resource) -> bool:
    """Return whether eviction would lose a computation: nothing restarts or recreates it."""
    return pod.get("spec", {}).get("restartPolicy", "Always") != "Always" or not _controller(pod)


def _comes_back(pod: Resource) -> bool:
    """Return whether a movable pod tolerates the cordon, as operators of the cluster do; never a pod with devices."""
    if ends_by_itself(pod):
        return False
    spec = pod.get("spec", {})
    # A toleration without a key matches every key, one without an effect every effect.
    tolerated = any(
        (t.get("key") or CORDON) == CORDON and (t.get("effect") or NO_NEW) == NO_NEW
        for t in spec.get("tolerations") or []
    )
    boxes = [*(spec.get("containers") or []), *(spec.get("initContainers") or [])]
    limits = (box.get("resources", {}).get("limits") or {} for box in boxes)
    return tolerated and not any("/" in name for one in limits for name in one)


def _controller(pod: Resource) -> str:
    owners: list[dict[str, Any]] = pod.get("metadata", {}).get("ownerReferences") or []
    return next((str(o.get("kind")) for o in owners if o.get("controller")), "")


def _name(pod: Resource) -> str:
    meta = pod["metadata"]
    return f"pod {meta.get('namespace', 'default')}/{meta['name']}"


def _reason(node: Resource) -> str:
    return str((node.get("metadata", {}).get("annotations") or {}).get(DRAINED, ""))


def _ready(node: Resource) -> bool:
    states = node.get("status", {}).get("conditions") or []
    return any(c.get("type") == "Ready" and c.get("status") == "True" for c in states)
