"""A door to hosts of Kubernetes through its own scheduler: a program runs there as a Job, on the host it is asked for.

The pod sees the host's own root, so what is installed there is what runs, and no registry is needed. Its namespace lets pods
do that (level privileged), so the kubeconfig must be an administrator's. A Job has a deadline of its own and is taken away
by the cluster, so nothing is left at work where the program is gone.
"""

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from appliance.adapters.kubernetes import Cluster, Ref
from appliance.adapters.process import Completed
from appliance.adapters.remote import Reachable
from appliance.errors import ClusterFailed, ConnectionFailed, DeadlineExceeded

NAMESPACE = "appliance-benchmarks"
OWN = {"appliance/benchmark": "true"}
HOST_ROOT = "/host"
GPU = "nvidia.com/gpu"
KAI, QUEUE_LABEL = "kai-scheduler", "kai.scheduler/queue"
START_SECONDS = 60.0
"""A host that the scheduler does not free for longer is busy, which is no fault; as with Slurm."""
BUSY = "Immediate allocation"
"""Slurm's word for it, by which jobs know that a host is at work."""
KEPT_SECONDS = 600
POLL = 1.0


class Logged(Cluster, Protocol):
    """A cluster whose pods can be heard."""

    def logs(self, pod: Ref) -> str:
        """What its only container printed, standard error included."""
        ...


@dataclass(frozen=True)
class Way:
    """How pods are made. ``image``: has sh and chroot; ``queue``: of KAI, "" for the cluster's own scheduler."""

    image: str
    queue: str = ""


@dataclass(frozen=True)
class PodRemote:
    """Runs on ``hosts`` through Kubernetes, on all others as ``beside`` does. Once ``cancelled`` says so it gives up."""

    beside: Reachable
    cluster: Logged
    hosts: frozenset[str]
    way: Way
    cancelled: Callable[[], bool] = field(default=lambda: False)
    now: Callable[[], float] = field(default=time.monotonic)
    sleep: Callable[[float], None] = field(default=time.sleep)

    def run(
        self, host: str, argv: Sequence[str], *, input: bytes | None = None, timeout: float = 60
    ) -> Completed:
        """See Remote. What needs an input goes beside Kubernetes: a pod has none."""
        if host not in self.hosts or input is not None:
            return self.beside.run(host, argv, input=input, timeout=timeout)
        name = f"bench-{uuid.uuid4().hex[:12]}"
        ref = Ref("batch/v1", "Job", name, NAMESPACE)
        try:
            self._submit(name, host, argv, timeout)
            try:
                return self._ended(name, host, argv, timeout)
            finally:
                self.cluster.delete(ref)
        except ClusterFailed as error:
            raise ConnectionFailed(error.message, error.hint, host) from error

    def reach(self, host: str) -> None:
        """See Reachable."""
        self.beside.reach(host)

    def leave(self, host: str) -> None:
        """See Reachable."""
        self.beside.leave(host)

    def _submit(self, name: str, host: str, argv: Sequence[str], timeout: float) -> None:
        labels = OWN | {"pod-security.kubernetes.io/enforce": "privileged"}
        meta = {"name": NAMESPACE, "labels": labels}
        self.cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
        node = self.cluster.get(Ref("v1", "Node", host))
        if node is None:
            raise ConnectionFailed(
                f"the cluster has no node {host}", "appliance node show says whose it is", host
            )
        gpus = str(node.get("status", {}).get("allocatable", {}).get(GPU, "0"))
        self.cluster.apply(job(name, host, argv, timeout, gpus, self.way))

    def _ended(self, name: str, host: str, argv: Sequence[str], timeout: float) -> Completed:
        begun = self.now()
        while True:
            pod = next(iter(self.cluster.find("v1", "Pod", f"job-name={name}")), None)
            status: Mapping[str, Any] = pod.get("status", {}) if pod else {}
            done = _code(status)
            if pod is not None and done is not None:
                said = self.cluster.logs(Ref.of(pod))
                return Completed(tuple(argv), done, said, "")
            waited = self.now() - begun
            if status.get("phase", "Pending") == "Pending" and waited > START_SECONDS:
                return Completed(tuple(argv), 1, "", f"{BUSY}: {_why(status)}")
            if waited > START_SECONDS + timeout:
                raise DeadlineExceeded(f"{argv[0]} did not end within {timeout:g} s", "", host)
            if self.cancelled():
                raise ConnectionFailed(
                    f"{argv[0]} was interrupted", "run the same command again", host
                )
            self.sleep(POLL)


def job(
    name: str, host: str, argv: Sequence[str], timeout: float, gpus: str, way: Way
) -> dict[str, Any]:
    """The Job: one pod on the host, with all of its GPUs where it has any, so that no work of others is beside it."""
    asked = {"cpu": "100m", "memory": "128Mi"} | ({GPU: gpus} if gpus not in {"", "0"} else {})
    labels = OWN | ({QUEUE_LABEL: way.queue} if way.queue else {})
    container = {
        "name": "work",
        "image": way.image,
        "command": ["chroot", HOST_ROOT, *argv],
        "resources": {"requests": asked, "limits": {k: v for k, v in asked.items() if k == GPU}},
        "securityContext": {"runAsUser": 0, "privileged": True},
        "volumeMounts": [{"name": "root", "mountPath": HOST_ROOT}],
    }
    spec = {
        "restartPolicy": "Never",
        "nodeSelector": {"kubernetes.io/hostname": host},
        "tolerations": [{"key": GPU, "operator": "Exists"}],
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 1,
        "containers": [container],
        "volumes": [{"name": "root", "hostPath": {"path": "/"}}],
        **({"schedulerName": KAI} if way.queue else {}),
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels},
        "spec": {
            "backoffLimit": 0,
            "activeDeadlineSeconds": int(timeout + START_SECONDS) + 1,
            "ttlSecondsAfterFinished": KEPT_SECONDS,
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


def _code(status: Mapping[str, Any]) -> int | None:
    """Of its container, None while it runs."""
    for container in status.get("containerStatuses", []):
        ended = container.get("state", {}).get("terminated")
        if ended:
            return int(ended.get("exitCode", 1))
    return 1 if status.get("phase") == "Failed" else None


def _why(status: Mapping[str, Any]) -> str:
    """Why a pod does not start, in the scheduler's or kubelet's words."""
    for container in status.get("containerStatuses", []):
        waiting = container.get("state", {}).get("waiting", {})
        if waiting.get("reason"):
            return f"{waiting['reason']} {waiting.get('message', '')}".strip()
    said = [
        c.get("message", "") for c in status.get("conditions", []) if c.get("status") == "False"
    ]
    return next(filter(None, said), "the scheduler has not placed it")
