"""Work for a trial, as a batch Job: its controller makes a new pod for each one that is evicted."""

from dataclasses import dataclass, field
from typing import Any

from appliance.acceptance.capacity import GPU, TRIAL

NAMESPACE = "appliance-acceptance"
WORKLOAD = "appliance/workload"
QUEUE_LABEL = "kai.scheduler/queue"
MIN_MEMBER = "kai.scheduler/batch-min-member"
PREFIX = "appliance-acceptance"

SUCCEEDED_OVER_CAP = 42
ALLOCATE = (
    "import sys, torch\n"
    "torch.empty({size} // 3, dtype=torch.uint8, device=0)\n"
    "torch.cuda.empty_cache()\n"
    "try: torch.empty({size}, dtype=torch.uint8, device=0)\n"
    "except torch.cuda.OutOfMemoryError: sys.exit(0)\n"
    "sys.exit(42)"
)
"""Takes more memory than its part of the GPU; refused, as it should be, it ends well.

A third of that, which it may have, comes first: where even that is refused the cap has shown nothing.
"""


@dataclass(frozen=True)
class Work:
    """``pods`` pods, each with ``gpus`` GPUs; of which ``gang`` start together or none (1: each for itself).

    ``seconds``: how long each runs. ``kind``: its priority class, where the cluster has it. ``part``: of one GPU, in
    place of whole ones. ``near``: topology and level within which all must be. ``pinned``: a host.
    """

    name: str
    pods: int = 1
    gpus: int = 0
    gang: int = 1
    kind: str = "train"
    queue: str = "work"
    seconds: int = 7200
    part: float = 0
    resource: str = ""
    near: tuple[str, str] | None = None
    pinned: str = ""
    command: tuple[str, ...] = ()
    image: str = ""
    labels: dict[str, str] = field(default_factory=dict)


def job(work: Work, *, image: str, scheduler: str, classes: frozenset[str]) -> dict[str, Any]:
    """The Job as the API takes it."""
    labels = {
        TRIAL: "true",
        WORKLOAD: work.name,
        QUEUE_LABEL: queue_name(work.queue),
        **work.labels,
    }
    template: dict[str, Any] = {
        "metadata": {"labels": labels, "annotations": _marks(work)},
        "spec": {
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
        },
    }
    if work.kind in classes:
        template["spec"]["priorityClassName"] = work.kind
    if work.pinned:
        template["spec"]["nodeSelector"] = {"kubernetes.io/hostname": work.pinned}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": work.name,
            "namespace": NAMESPACE,
            "labels": labels,
            "annotations": _marks(work),
        },
        "spec": {
            "parallelism": work.pods,
            "completions": work.pods,
            "backoffLimit": 1000,
            "template": template,
        },
    }


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
    marks = {MIN_MEMBER: str(work.gang)}
    if work.part:
        marks["gpu-fraction"] = f"{work.part:g}"
    if work.near:
        marks["kai.scheduler/topology"] = work.near[0]
        marks["kai.scheduler/topology-required-placement"] = work.near[1]
    return marks


def queue_name(name: str) -> str:
    """The cluster's name of a queue of the trial."""
    return f"{PREFIX}-{name}"


def queue(
    name: str, quota: float, *, limit: float = -1, weight: float = 1, parent: str = ""
) -> dict[str, Any]:
    """A queue with so many GPUs guaranteed; -1 is without bound."""
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
