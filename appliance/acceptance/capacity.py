"""The capacity that a cluster offers a trial: GPU hosts, GPUs in use, and available kinds of resources."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from appliance.stages.scheduler.queues.kai import OWN_POOL_LABEL, POOL_LABEL
from appliance.text import plural

Resource = dict[str, Any]

GPU = "nvidia.com/gpu"
MIG = "nvidia.com/mig-"
PARTS = ("gpu-fraction", "gpu-memory")
"""Annotations of KAI for a part of a GPU; with NVIDIA's fractions there is one per container, with .gpu-memory. in it."""
TRIAL = "appliance/acceptance"
QUEUES = "queues.scheduling.run.ai"
GROUPS = "podgroups.scheduling.run.ai"
CLASSES = ("train", "build", "inference")
"""Priority classes of KAI: 50, 100 and 125; from 100 on, a pod is never evicted."""
MANY = 128
"""Number of GPUs above which a trial that fills the cluster uses larger pods: KAI places and reclaims pods, whatever their size."""
SHUT = ("NoSchedule", "NoExecute")
"""Effects of a taint that reject pods without a toleration."""


@dataclass(frozen=True)
class Node:
    """A schedulable host."""

    name: str
    gpus: int
    mig: Mapping[str, int] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Capacity:
    """``taken``: GPUs and parts of GPUs that other pods hold.

    ``topologies``: name and level labels.
    ``shared``: whether the scheduler shares GPUs, if known. ``apart``: GPU hosts of node pools whose shards
    accept no work of the trial's queues.
    """

    nodes: tuple[Node, ...]
    taken: int = 0
    definitions: frozenset[str] = frozenset()
    classes: frozenset[str] = frozenset()
    topologies: tuple[tuple[str, tuple[str, ...]], ...] = ()
    gpu_image: str = ""
    metrics: bool = False
    shared: bool = True
    apart: int = 0

    @property
    def gpu_nodes(self) -> tuple[Node, ...]:
        """Hosts with whole GPUs."""
        return tuple(node for node in self.nodes if node.gpus)

    @property
    def gpus(self) -> int:
        """Whole GPUs of all hosts."""
        return sum(node.gpus for node in self.nodes)

    @property
    def unit(self) -> int:
        """GPUs of each pod if a trial fills the cluster: one; on a large cluster, the greatest common divisor of the hosts' GPUs."""
        return math.gcd(*(node.gpus for node in self.gpu_nodes)) if self.gpus > MANY else 1

    @property
    def units(self) -> int:
        """Number of such pods that fill the cluster."""
        return self.gpus // self.unit

    @property
    def queues(self) -> bool:
        """Whether the cluster has queues."""
        return QUEUES in self.definitions

    @property
    def groups(self) -> bool:
        """Whether the cluster has pod groups."""
        return GROUPS in self.definitions

    def lacks(self, *, gpus: int = 1, hosts: int = 1, queues: bool = False) -> str:
        """Why a trial with these needs cannot run, "" if it can."""
        if len(self.gpu_nodes) < hosts:
            wanted = f"{hosts} GPU host{'s'[: hosts > 1]}"
            return f"needs {wanted}, {self._where} has {len(self.gpu_nodes)}"
        if self.gpus < gpus:
            return f"needs {gpus} GPUs, {self._where} has {self.gpus}"
        if self.taken:
            return f"{plural(self.taken, 'pod of others holds', 'pods of others hold')} GPUs: try again when the cluster is idle"
        if queues and not self.queues:
            return f"the cluster has no queues ({QUEUES})"
        return ""

    @property
    def _where(self) -> str:
        return "the default node pool" if self.apart else "the cluster"

    def domain(self) -> tuple[str, str, dict[str, list[str]]] | None:
        """Topology, level label and hosts by domain: the nearest level with several domains that contain several hosts."""
        for name, levels in self.topologies:
            for label in reversed(levels):
                groups: dict[str, list[str]] = {}
                for node in self.gpu_nodes:
                    if label in node.labels:
                        groups.setdefault(node.labels[label], []).append(node.name)
                if len(groups) > 1 and max(map(len, groups.values())) > 1:
                    return name, label, groups
        return None


def read(nodes: Iterable[Resource], pods: Iterable[Resource], **known: Any) -> Capacity:
    """Return the capacity of a cluster, from its nodes and all its pods."""
    listed = list(nodes)
    pooled = {n["metadata"]["name"] for n in listed if _pooled(n)}
    holding = [
        pod
        for pod in pods
        if not _pooled(pod)
        and pod["spec"].get("nodeName") not in pooled
        and TRIAL not in pod["metadata"].get("labels", {})
        and pod.get("status", {}).get("phase") not in {"Succeeded", "Failed"}
        and _holds_gpus(pod)
    ]
    found = tuple(_node(n) for n in listed if _open(n) and not _pooled(n))
    apart = sum(_node(n).gpus > 0 for n in listed if _pooled(n))
    return Capacity(found, len(holding), apart=apart, **known)


def _pooled(thing: Resource) -> bool:
    """Return whether the host belongs to a KAI shard other than the default one, which accepts work without a pool label."""
    return not {POOL_LABEL, OWN_POOL_LABEL}.isdisjoint(thing["metadata"].get("labels", {}))


def _node(node: Resource) -> Node:
    offered = node.get("status", {}).get("allocatable", {})
    return Node(
        name=node["metadata"]["name"],
        gpus=int(offered.get(GPU, 0)),
        mig={k: int(v) for k, v in offered.items() if k.startswith(MIG) and int(v)},
        labels=dict(node["metadata"].get("labels", {})),
    )


def _open(node: Resource) -> bool:
    """Return whether the trial's pods may run there; they tolerate only the taint of GPU hosts."""
    conditions = node.get("status", {}).get("conditions", [])
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
    spec = node.get("spec", {})
    shut = any(t["effect"] in SHUT and t["key"] != GPU for t in spec.get("taints", []))
    return ready and not shut and not spec.get("unschedulable", False)


def _holds_gpus(pod: Resource) -> bool:
    marks = pod["metadata"].get("annotations", {})
    spec = pod["spec"]
    boxes = [*spec["containers"], *spec.get("initContainers", [])]
    asked = [c.get("resources", {}).get("limits", {}) for c in boxes]
    whole = any(key == GPU or key.startswith(MIG) for limits in asked for key in limits)
    part = any(key in PARTS or ".gpu-memory." in key for key in marks)
    return whole or part or bool(spec.get("resourceClaims"))
