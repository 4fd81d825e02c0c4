"""Work of a trial: a Job, whose controller recreates evicted pods, or a group of single pods."""

from dataclasses import dataclass, field
from typing import Any

from appliance.acceptance.capacity import GPU, TRIAL

NAMESPACE = "appliance-acceptance"
WORKLOAD = "appliance/workload"
QUEUE_LABEL = "kai.scheduler/queue"
MIN_MEMBER = "kai.scheduler/batch-min-member"
GROUP_OF_POD = "pod-group-name"
"""Annotation of a pod: its group.

KAI's pod-grouper does not touch a pod without an owner that has it, in every release (0.12 to 0.18); its
handling of Jobs differs between releases.
"""
GROUP_FORM = ("scheduling.run.ai/v2alpha2", "PodGroup")
PREFIX = "appliance-acceptance"
HOSTNAME = "kubernetes.io/hostname"

SUCCEEDED_OVER_CAP = 42
ALLOCATE = (
    "import sys, torch\n"
    "torch.empty({size} // 3, dtype=torch.uint8, device=0)\n"
    "torch.cuda.empty_cache()\n"
    "try: torch.empty({size}, dtype=torch.uint8, device=0)\n"
    "except torch.cuda.OutOfMemoryError: sys.exit(0)\n"
    "sys.exit(42)"
)
"""Allocates more memory than its part of the GPU; if that fails, as it should, it succeeds.

It first allocates a third of the part: if even that fails, the limit was not tested.
"""


@dataclass(frozen=True)
class Work:
    """``pods`` pods, each with ``gpus`` GPUs.

    ``gang``: they form one group, of which this number starts together or none (0: a Job, each pod by itself).
    ``seconds``: run time of each. ``kind``: its priority class, if the cluster has it. ``part``: a part of a
    GPU instead of whole ones. ``near``: topology and level that contain all pods. ``pinned``: a host.
    ``nowhere``: this number of its last pods request a host that does not exist.
    """

    name: str
    pods: int = 1
    gpus: int = 0
    gang: int = 0
    kind: str = "train"
    queue: str = "work"
    seconds: int = 7200
    part: float = 0
    resource: str = ""
    near: tuple[str, str] | None = None
    pinned: str = ""
    nowhere: int = 0
    command: tuple[str, ...] = ()
    image: str = ""
    labels: dict[str, str] = field(default_factory=dict)


def resources(
    work: Work, *, image: str, scheduler: str, classes: frozenset[str], groups: bool
) -> list[dict[str, Any]]:
    """Return the resources for the API. ``groups``: whether the cluster has KAI's groups; without them, a gang is plain pods."""
    template = _template(work, image, scheduler, classes)
    if not work.gang:
        return [_job(work, template)]
    pods = [_pod(work, template, number) for number in range(work.pods)]
    return [*([_group(work, classes)] if groups else []), *pods]


def _template(
    work: Work, image: str, scheduler: str, classes: frozenset[str]
) -> dict[str, dict[str, Any]]:
    spec: dict[str, Any] = {
        "schedulerName": scheduler,
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 1,
        "automountServiceAccountToken": False,
        "tolerations": [{"key": GPU, "operator": "Exists"}],
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 65534,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(work, image)],
    }
    if work.kind in classes:
        spec["priorityClassName"] = work.kind
    if work.pinned:
        spec["nodeSelector"] = {HOSTNAME: work.pinned}
    return {"metadata": {"labels": _labels(work), "annotations": _marks(work)}, "spec": spec}


def _labels(work: Work) -> dict[str, str]:
    queue = queue_name(work.queue)
    return {TRIAL: "true", WORKLOAD: work.name, QUEUE_LABEL: queue, **work.labels}


def _job(work: Work, template: dict[str, dict[str, Any]]) -> dict[str, Any]:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": work.name,
            "namespace": NAMESPACE,
            "labels": _labels(work),
            "annotations": _marks(work),
        },
        "spec": {
            "parallelism": work.pods,
            "completions": work.pods,
            "backoffLimit": 1000,
            "template": template,
        },
    }


def _pod(work: Work, template: dict[str, dict[str, Any]], number: int) -> dict[str, Any]:
    name = {"name": f"{work.name}-{number}", "namespace": NAMESPACE}
    metadata, spec = {**template["metadata"], **name}, template["spec"]
    if number >= work.pods - work.nowhere:
        spec = {**spec, "nodeSelector": {HOSTNAME: f"{PREFIX}-nowhere"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _group(work: Work, classes: frozenset[str]) -> dict[str, Any]:
    version, kind = GROUP_FORM
    spec: dict[str, Any] = {"minMember": work.gang, "queue": queue_name(work.queue)}
    if work.kind in classes:
        spec["priorityClassName"] = work.kind
    if work.near:
        topology, level = work.near
        spec["topologyConstraint"] = {"topology": topology, "requiredTopologyLevel": level}
    metadata = {"name": work.name, "namespace": NAMESPACE, "labels": _labels(work)}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}


def _container(work: Work, image: str) -> dict[str, Any]:
    asked: dict[str, str] = {"cpu": "50m", "memory": "64Mi"}
    if work.gpus:
        asked[GPU] = str(work.gpus)
    if work.resource:
        asked[work.resource] = "1"
    return {
        "name": "work",
        "image": work.image or image,
        "command": list(work.command or ("sleep", str(work.seconds))),
        "resources": {"limits": asked, "requests": asked},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        },
    }


def _marks(work: Work) -> dict[str, str]:
    marks = {GROUP_OF_POD: work.name} if work.gang else {MIN_MEMBER: "1"}
    if work.part:
        marks["gpu-fraction"] = f"{work.part:g}"
    return marks


def queue_name(name: str) -> str:
    """Return the cluster's name of a queue of the trial."""
    return f"{PREFIX}-{name}"


def queue(
    name: str, quota: float, *, limit: float = -1, weight: float = 1, parent: str = ""
) -> dict[str, Any]:
    """Return a queue with this number of guaranteed GPUs; -1 is unlimited."""
    unbound = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
    spec: dict[str, Any] = {
        "resources": {
            "gpu": {"quota": quota, "limit": limit, "overQuotaWeight": weight},
            "cpu": unbound,
            "memory": unbound,
        }
    }
    if parent:
        spec["parentQueue"] = parent
    return {
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": {"name": name, "labels": {TRIAL: "true"}},
        "spec": spec,
    }
