"""Runs programs on hosts of Kubernetes as Jobs of its own scheduler, each on a given host.

The pod mounts the host's root, so the installed programs run, and no registry is needed. Its namespace allows that (level
privileged), so the kubeconfig must be an administrator's. A Job has a deadline of its own and is deleted by the cluster,
so nothing keeps running if the program is killed.
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
WORK_LABEL = "appliance/work"
HOST_ROOT = "/host"
GPU, FABRIC = "nvidia.com/gpu", "rdma/fabric"
KAI, QUEUE_LABEL = "kai-scheduler", "kai.scheduler/queue"
START_SECONDS = 60.0
"""A host that the scheduler does not free within this time is busy, which is not a fault; as with Slurm."""
BUSY = "Immediate allocation"
"""Slurm's message, by which jobs recognize a busy host."""
KEPT_SECONDS = 600
POLL = 1.0
LOST = 30
"""Polls that the API server may leave unanswered: the Job continues meanwhile."""
KILLED = 128
"""Exit codes above it are signals."""
BROKEN = frozenset(
    {
        "ErrImagePull",
        "ImagePullBackOff",
        "ErrImageNeverPull",
        "InvalidImageName",
        "CreateContainerConfigError",
    }
)
"""Kubelet's reasons for a container that will not start."""


class OtherGpus(ConnectionFailed):
    """The cluster may offer another number of the host's GPUs than it has."""


class Logged(Cluster, Protocol):
    """A cluster with readable pod logs."""

    def logs(self, pod: Ref) -> str:
        """The output of its only container, with standard error."""
        ...


@dataclass(frozen=True)
class PodTemplate:
    """Settings of pods. ``image``: contains sh and chroot; ``queue``: of KAI, "" for the cluster's own scheduler."""

    image: str
    queue: str = ""


@dataclass(frozen=True)
class PodWork:
    """The work of a pod, and its timeout in s. ``image``: of the container; "": the host's own root.

    In an image it has the host's shared memory, may lock memory, and gets a share of the fabric if the host offers one.
    ``label``: by which Jobs that continue are found again. ``on_host_network``: in the host's network, as a job of Slurm is; the RoCE addresses of an adapter exist only there.
    """

    argv: Sequence[str]
    timeout: float
    image: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)
    on_host_network: bool = False
    label: str = ""


@dataclass(frozen=True)
class Rank:
    """The result of one of several programs that work together; ``code`` None: it was still running when another had failed."""

    host: str
    code: int | None
    said: str


@dataclass(frozen=True)
class PodRemote:
    """Runs on ``hosts`` through Kubernetes, on all others through ``beside``. Stops when ``cancelled`` returns true.

    ``gpus``: the number of GPUs per host, if the cluster must offer exactly these. ``next_to_slurm``: run through both schedulers where possible.
    """

    beside: Reachable
    cluster: Logged
    hosts: frozenset[str]
    way: PodTemplate
    gpus: Mapping[str, int] = field(default_factory=dict)
    next_to_slurm: bool = False
    cancelled: Callable[[], bool] = field(default=lambda: False)
    now: Callable[[], float] = field(default=time.monotonic)
    sleep: Callable[[float], None] = field(default=time.sleep)

    def run(
        self, host: str, argv: Sequence[str], *, input: bytes | None = None, timeout: float = 60
    ) -> Completed:
        """See Remote. A program with an input runs outside of Kubernetes: a pod has none."""
        if host not in self.hosts or input is not None:
            return self.beside.run(host, argv, input=input, timeout=timeout)
        name = _name()
        try:
            self._submit(name, host, PodWork(argv, timeout))
            try:
                return self._ended(name, host, argv, timeout)
            finally:
                self._remove(name)
        except ClusterFailed as error:
            raise ConnectionFailed(error.message, error.hint, host) from error

    def gang(self, hosts: Sequence[str], work: PodWork, port: int) -> tuple[Rank, ...]:
        """Runs the program on all of these hosts at once, with torchrun's variables for rank and master address.

        The first failure ends the others. Raises ConnectionFailed if one is not placed or cannot start, OtherGpus, or
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

    def start(self, hosts: Sequence[str], work: PodWork, port: int) -> None:
        """Starts the program on all of these hosts as Jobs that continue without this program; they have ``work.label``.

        The variables are those of ``gang``, without the address. Raises ConnectionFailed, OtherGpus or ClusterFailed.
        """
        common = {**work.variables, "WORLD_SIZE": str(len(hosts)), "MASTER_PORT": str(port)}
        for rank, host in enumerate(hosts):
            self._submit(_name(), host, work, _of_rank(common, rank, host))

    def state_of(self, label: str) -> str | None:
        """PENDING until every Job with this label has started, RUNNING while one runs, "" if none does; None if unknown."""
        try:
            jobs = self.cluster.find("batch/v1", "Job", f"{WORK_LABEL}={label}")
        except ClusterFailed:
            return None
        left = [job.get("status", {}) for job in jobs if not _is_over(job.get("status", {}))]
        waiting = any(not status.get("ready") for status in left)
        return "" if not left else "PENDING" if waiting else "RUNNING"

    def end(self, label: str) -> None:
        """Deletes the Jobs with this label; no error if the API server does not answer."""
        with suppress(ClusterFailed):
            for found in self.cluster.find("batch/v1", "Job", f"{WORK_LABEL}={label}"):
                self.cluster.delete(Ref.of(found))

    def reach(self, host: str) -> None:
        """See Reachable."""
        self.beside.reach(host)

    def leave(self, host: str) -> None:
        """See Reachable."""
        self.beside.leave(host)

    def _placed(self, name: str, host: str, work: PodWork) -> str:
        """The pod's address. Raises ConnectionFailed if the scheduler does not place it in time, or it cannot start."""
        begun = self.now()
        # Pulling the image takes its time; a host that has accepted the pod counts as placed.
        patience = work.timeout if work.image else START_SECONDS
        while True:
            status = self._status(name)[1]
            _startable(status, host)
            if status.get("podIP") and status.get("phase", "Pending") != "Pending":
                return str(status["podIP"])
            bound = patience if _scheduled(status) else START_SECONDS
            if self.now() - begun > bound:
                raise ConnectionFailed(
                    f"Kubernetes did not place the pod on {host}: {_why(status)}",
                    f"kubectl describe node {host} shows what uses it, or whether it is cordoned",
                    host,
                )
            self._rest(host)

    def _ranks(self, names: Sequence[str], hosts: Sequence[str], until: float) -> tuple[Rank, ...]:
        """Waits until all have ended, or one has failed: the others get a moment to report their own failure."""
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
        """The Job's pod, and its status. Raises ClusterFailed if the API server does not answer."""
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
        # Without an answer, the Job ends at its deadline, and the cluster deletes it.
        with suppress(ClusterFailed):
            self.cluster.delete(Ref("batch/v1", "Job", name, NAMESPACE))

    def _submit(
        self, name: str, host: str, work: PodWork, variables: Sequence[Mapping[str, Any]] = ()
    ) -> None:
        labels = OWN | {"pod-security.kubernetes.io/enforce": "privileged"}
        meta = {"name": NAMESPACE, "labels": labels}
        self.cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
        node = self.cluster.get(Ref("v1", "Node", host))
        if node is None:
            raise ConnectionFailed(
                f"the cluster has no node {host}", "show the owners: appliance node show", host
            )
        offered = node.get("status", {}).get("allocatable", {})
        wanted = self.gpus.get(host)
        # A cluster without a device plugin offers no GPUs, and places pods without them.
        if wanted is not None and str(offered.get(GPU, wanted)) != str(wanted):
            raise OtherGpus(
                f"Kubernetes offers {_plural(offered[GPU])} of {host}, which has {wanted}",
                "appliance health --check kubernetes.gpus; check the log of the device plugin there, which counts GPUs when it starts",
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
    work: PodWork,
    offered: Mapping[str, Any],
    way: PodTemplate,
    variables: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """The Job: one pod on the host, with all of its GPUs if it has any, so that it shares the host with no other work.

    ``offered``: what the cluster offers there.
    """
    gpus = str(offered.get(GPU, "0"))
    whole = {GPU: gpus} if gpus not in {"", "0"} else {}
    if work.image and str(offered.get(FABRIC, "0")) != "0":
        whole[FABRIC] = "1"
    labels = OWN | ({QUEUE_LABEL: way.queue} if way.queue else {})
    labels |= {WORK_LABEL: work.label} if work.label else {}
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
        **({"hostNetwork": True} if work.on_host_network else {}),
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


def _on_root(work: PodWork, way: PodTemplate) -> dict[str, Any]:
    return {
        "image": way.image,
        "command": ["chroot", HOST_ROOT, *work.argv],
        "securityContext": {"runAsUser": 0, "privileged": True},
        "volumeMounts": [{"name": "root", "mountPath": HOST_ROOT}],
    }


def _in_image(work: PodWork) -> dict[str, Any]:
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
    """The environment of a rank; ``NODE_NAME``: of its host, because a pod has a name of its own."""
    given = {**common, "RANK": str(rank), "NODE_NAME": host}
    return [_variable(name, {"value": value}) for name, value in given.items()]


def _variable(name: str, value: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": name, **value}


def _code(status: Mapping[str, Any]) -> int | None:
    """Exit code of its container, None while it runs."""
    for container in status.get("containerStatuses", []):
        ended = container.get("state", {}).get("terminated")
        if ended:
            return int(ended.get("exitCode", 1))
    return 1 if status.get("phase") == "Failed" else None


def _is_over(status: Mapping[str, Any]) -> bool:
    """Whether a Job has ended, in its own words."""
    ends = {"Complete", "Failed"}
    conditions = status.get("conditions", [])
    return any(c.get("type") in ends and c.get("status") == "True" for c in conditions)


def _plural(count: object) -> str:
    """The number of GPUs that a node offers, in words; the API gives it as text."""
    return "1 GPU" if str(count) == "1" else f"{count} GPUs"


def _scheduled(status: Mapping[str, Any]) -> bool:
    """Whether a host has accepted the pod."""
    conditions = status.get("conditions", [])
    return any(c.get("type") == "PodScheduled" and c.get("status") == "True" for c in conditions)


def _startable(status: Mapping[str, Any], host: str) -> None:
    """Raises ConnectionFailed if waiting cannot start it."""
    reasons = {
        c.get("state", {}).get("waiting", {}).get("reason")
        for c in status.get("containerStatuses", [])
    }
    if reasons & BROKEN:
        raise ConnectionFailed(
            f"Kubernetes cannot start the pod on {host}: {_why(status)}",
            "name an image that the host can pull (--image, --container-image)",
            host,
        )


def _why(status: Mapping[str, Any]) -> str:
    """Why a pod does not start, in the words of the scheduler or kubelet."""
    for container in status.get("containerStatuses", []):
        waiting = container.get("state", {}).get("waiting", {})
        if waiting.get("reason"):
            return f"{waiting['reason']} {waiting.get('message', '')}".strip()
    said = [
        c.get("message", "") for c in status.get("conditions", []) if c.get("status") == "False"
    ]
    return next(filter(None, said), "the scheduler has not placed it")
