"""A door to hosts of Kubernetes through its own scheduler: a program runs there as a Job, on the host it is asked for.

The pod sees the host's own root, so what is installed there is what runs, and no registry is needed. Its namespace lets pods
do that (level privileged), so the kubeconfig must be an administrator's. A Job has a deadline of its own and is taken away
by the cluster, so nothing is left at work where the program is gone.
"""

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from appliance.adapters.kubernetes import Cluster, Ref
from appliance.adapters.process import Completed
from appliance.adapters.remote import Reachable
from appliance.errors import ClusterFailed, ConnectionFailed, DeadlineExceeded

T = TypeVar("T")
NAMESPACE = "appliance-benchmarks"
OWN = {"appliance/benchmark": "true"}
HOST_ROOT = "/host"
GPU, FABRIC = "nvidia.com/gpu", "rdma/fabric"
KAI, QUEUE_LABEL = "kai-scheduler", "kai.scheduler/queue"
START_SECONDS = 60.0
"""A host that the scheduler does not free for longer is busy, which is no fault; as with Slurm."""
BUSY = "Immediate allocation"
"""Slurm's word for it, by which jobs know that a host is at work."""
KEPT_SECONDS = 600
POLL = 1.0
LOST = 30
"""Polls that the API server may leave unanswered: the Job goes on meanwhile."""
KILLED = 128
"""Above it an exit code is a signal's."""
BROKEN = frozenset(
    {
        "ErrImagePull",
        "ImagePullBackOff",
        "ErrImageNeverPull",
        "InvalidImageName",
        "CreateContainerConfigError",
    }
)
"""Kubelet's words for a container that waiting does not start."""


class OtherGpus(ConnectionFailed):
    """The cluster may give out another number of the host's GPUs than it has."""


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
class Work:
    """What a pod does, and for at most how many s. ``image``: what it runs in; "": the host's own root.

    In an image it has the host's shared memory, may lock memory, and has a share of the fabric where the host offers one.
    """

    argv: Sequence[str]
    timeout: float
    image: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Rank:
    """How one of several programs that work together ended; ``code`` None: it was still at work when another had failed."""

    host: str
    code: int | None
    said: str


@dataclass(frozen=True)
class PodRemote:
    """Runs on ``hosts`` through Kubernetes, on all others as ``beside`` does. Once ``cancelled`` says so it gives up.

    ``gpus``: how many a host has, where the cluster must offer just those.
    """

    beside: Reachable
    cluster: Logged
    hosts: frozenset[str]
    way: Way
    gpus: Mapping[str, int] = field(default_factory=dict)
    cancelled: Callable[[], bool] = field(default=lambda: False)
    now: Callable[[], float] = field(default=time.monotonic)
    sleep: Callable[[float], None] = field(default=time.sleep)

    def run(
        self, host: str, argv: Sequence[str], *, input: bytes | None = None, timeout: float = 60
    ) -> Completed:
        """See Remote. What needs an input goes beside Kubernetes: a pod has none."""
        if host not in self.hosts or input is not None:
            return self.beside.run(host, argv, input=input, timeout=timeout)
        name = _name()
        try:
            self._submit(name, host, Work(argv, timeout))
            try:
                return self._ended(name, host, argv, timeout)
            finally:
                self._remove(name)
        except ClusterFailed as error:
            raise ConnectionFailed(error.message, error.hint, host) from error

    def gang(self, hosts: Sequence[str], work: Work, port: int) -> tuple[Rank, ...]:
        """The program on all of these hosts at once, over the network of pods, each told as torchrun would who it is and where the first is.

        The first that fails ends the others. Raises ConnectionFailed where one is not placed or cannot start, OtherGpus, or
        DeadlineExceeded.
        """
        names = [_name() for _ in hosts]
        common = {**work.variables, "WORLD_SIZE": str(len(hosts)), "MASTER_PORT": str(port)}
        begun = self.now()
        try:
            own = {"valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
            first = [_variable("MASTER_ADDR", own), *_of_rank(common, 0, hosts[0])]
            self._submit(names[0], hosts[0], work, first)
            address = self._placed(names[0], hosts[0], work)
            for rank, (name, host) in enumerate(zip(names[1:], hosts[1:], strict=True), 1):
                given = common | {"MASTER_ADDR": address}
                self._submit(name, host, work, _of_rank(given, rank, host))
            for name, host in zip(names[1:], hosts[1:], strict=True):
                self._placed(name, host, work)
            return self._ranks(names, hosts, begun + START_SECONDS + work.timeout)
        except ClusterFailed as error:
            raise ConnectionFailed(error.message, error.hint, hosts[0]) from error
        finally:
            for name in names:
                self._remove(name)

    def reach(self, host: str) -> None:
        """See Reachable."""
        self.beside.reach(host)

    def leave(self, host: str) -> None:
        """See Reachable."""
        self.beside.leave(host)

    def _placed(self, name: str, host: str, work: Work) -> str:
        """The pod's address. Raises ConnectionFailed where the scheduler gives it no host in time, or it cannot start."""
        begun = self.now()
        # An image is fetched first, which takes its time; a host that has taken the pod is given.
        patience = work.timeout if work.image else START_SECONDS
        while True:
            status = self._status(name)[1]
            _startable(status, host)
            if status.get("podIP") and status.get("phase", "Pending") != "Pending":
                return str(status["podIP"])
            bound = patience if _scheduled(status) else START_SECONDS
            if self.now() - begun > bound:
                raise ConnectionFailed(
                    f"Kubernetes gives {host} no work: {_why(status)}",
                    f"kubectl describe node {host} says who has it, or whether it is cordoned",
                    host,
                )
            self._rest(host)

    def _ranks(self, names: Sequence[str], hosts: Sequence[str], until: float) -> tuple[Rank, ...]:
        """Until all have ended, or one has failed: those that follow it at once are given a moment to say so."""
        while True:
            codes = [_code(self._status(name)[1]) for name in names]
            if any(codes) or None not in codes:
                break
            if self.now() > until:
                late = next(h for h, code in zip(hosts, codes, strict=True) if code is None)
                raise DeadlineExceeded("the pods did not end in time", "", late)
            self._rest(hosts[0])
        self.sleep(POLL)
        found = [self._status(name) for name in names]
        return tuple(
            Rank(host, _code(status), self._log(pod) if pod else "")
            for host, (pod, status) in zip(hosts, found, strict=True)
        )

    def _rest(self, host: str) -> None:
        if self.cancelled():
            raise ConnectionFailed("it was interrupted", "run the same command again", host)
        self.sleep(POLL)

    def _status(self, name: str) -> tuple[Mapping[str, Any] | None, Mapping[str, Any]]:
        """The Job's pod, and what is said of it. Raises ClusterFailed where the API server stays silent."""
        pods = self._patient(lambda: self.cluster.find("v1", "Pod", f"job-name={name}"))
        pod = next(iter(pods), None)
        return pod, pod.get("status", {}) if pod else {}

    def _log(self, pod: Mapping[str, Any]) -> str:
        return self._patient(lambda: self.cluster.logs(Ref.of(pod)))

    def _patient(self, ask: Callable[[], T]) -> T:
        for _ in range(LOST):
            with suppress(ClusterFailed):
                return ask()
            self.sleep(POLL)
        return ask()

    def _remove(self, name: str) -> None:
        # Where nobody answers, the Job ends by its deadline, and the cluster takes it away.
        with suppress(ClusterFailed):
            self.cluster.delete(Ref("batch/v1", "Job", name, NAMESPACE))

    def _submit(
        self, name: str, host: str, work: Work, variables: Sequence[Mapping[str, Any]] = ()
    ) -> None:
        labels = OWN | {"pod-security.kubernetes.io/enforce": "privileged"}
        meta = {"name": NAMESPACE, "labels": labels}
        self.cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
        node = self.cluster.get(Ref("v1", "Node", host))
        if node is None:
            raise ConnectionFailed(
                f"the cluster has no node {host}", "appliance node show says whose it is", host
            )
        offered = node.get("status", {}).get("allocatable", {})
        wanted = self.gpus.get(host)
        # A cluster without a device plugin knows nothing of GPUs, and gives out what has none.
        if wanted is not None and str(offered.get(GPU, wanted)) != str(wanted):
            raise OtherGpus(
                f"Kubernetes offers {offered[GPU]} GPUs of {host}, which has {wanted}",
                "appliance health --check scheduler.gpus; the log of the device plugin there: it counts them when it starts",
                host,
            )
        self.cluster.apply(job(name, host, work, offered, self.way, variables))

    def _ended(self, name: str, host: str, argv: Sequence[str], timeout: float) -> Completed:
        begun = self.now()
        while True:
            pod, status = self._status(name)
            done = _code(status)
            if pod is not None and done is not None:
                return Completed(tuple(argv), done, self._log(pod), "")
            waited = self.now() - begun
            if status.get("phase", "Pending") == "Pending" and waited > START_SECONDS:
                return Completed(tuple(argv), 1, "", f"{BUSY}: {_why(status)}")
            if waited > START_SECONDS + timeout:
                raise DeadlineExceeded(f"{argv[0]} did not end within {timeout:g} s", "", host)
            self._rest(host)


def job(
    name: str,
    host: str,
    work: Work,
    offered: Mapping[str, Any],
    way: Way,
    variables: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """The Job: one pod on the host, with all of its GPUs where it has any, so that no work of others is beside it.

    ``offered``: what the cluster may give out there.
    """
    gpus = str(offered.get(GPU, "0"))
    whole = {GPU: gpus} if gpus not in {"", "0"} else {}
    if work.image and str(offered.get(FABRIC, "0")) != "0":
        whole[FABRIC] = "1"
    labels = OWN | ({QUEUE_LABEL: way.queue} if way.queue else {})
    container = {
        "name": "work",
        "env": list(variables),
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"} | whole, "limits": whole},
        **(_in_image(work) if work.image else _on_root(work, way)),
    }
    spec = {
        "restartPolicy": "Never",
        "nodeSelector": {"kubernetes.io/hostname": host},
        "tolerations": [{"key": GPU, "operator": "Exists"}],
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 1,
        "containers": [container],
        "volumes": [SHARED if work.image else ROOT],
        **({"schedulerName": KAI} if way.queue else {}),
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels},
        "spec": {
            "backoffLimit": 0,
            "activeDeadlineSeconds": int(work.timeout + START_SECONDS) + 1,
            "ttlSecondsAfterFinished": KEPT_SECONDS,
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


ROOT = {"name": "root", "hostPath": {"path": "/"}}
SHARED = {"name": "shared", "emptyDir": {"medium": "Memory"}}


def _on_root(work: Work, way: Way) -> dict[str, Any]:
    return {
        "image": way.image,
        "command": ["chroot", HOST_ROOT, *work.argv],
        "securityContext": {"runAsUser": 0, "privileged": True},
        "volumeMounts": [{"name": "root", "mountPath": HOST_ROOT}],
    }


def _in_image(work: Work) -> dict[str, Any]:
    return {
        "image": work.image,
        "command": list(work.argv),
        # Registered memory of RDMA is locked.
        "securityContext": {"capabilities": {"add": ["IPC_LOCK"]}},
        "volumeMounts": [{"name": "shared", "mountPath": "/dev/shm"}],
    }


def _name() -> str:
    return f"bench-{uuid.uuid4().hex[:12]}"


def _of_rank(common: Mapping[str, str], rank: int, host: str) -> list[dict[str, Any]]:
    """What a rank is told; ``NODE_NAME``: of its host, for a pod has a name of its own."""
    given = {**common, "RANK": str(rank), "NODE_NAME": host}
    return [_variable(name, {"value": value}) for name, value in given.items()]


def _variable(name: str, value: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": name, **value}


def _code(status: Mapping[str, Any]) -> int | None:
    """Of its container, None while it runs."""
    for container in status.get("containerStatuses", []):
        ended = container.get("state", {}).get("terminated")
        if ended:
            return int(ended.get("exitCode", 1))
    return 1 if status.get("phase") == "Failed" else None


def _scheduled(status: Mapping[str, Any]) -> bool:
    """Whether a host has taken the pod."""
    conditions = status.get("conditions", [])
    return any(c.get("type") == "PodScheduled" and c.get("status") == "True" for c in conditions)


def _startable(status: Mapping[str, Any], host: str) -> None:
    """Raises ConnectionFailed where no waiting starts it."""
    reasons = {
        c.get("state", {}).get("waiting", {}).get("reason")
        for c in status.get("containerStatuses", [])
    }
    if reasons & BROKEN:
        raise ConnectionFailed(
            f"Kubernetes does not start it on {host}: {_why(status)}",
            "name an image that the host can have (--image, --container-image)",
            host,
        )


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
