"""Clusters in memory whose time passes when somebody sleeps: a scheduler as promised, with faults, and a plain one."""

import copy
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from appliance.acceptance.capacity import GPU, GROUPS, MIG, QUEUES
from appliance.acceptance.sandbox import Name
from appliance.acceptance.workload import GROUP_OF_POD, QUEUE_LABEL, SUCCEEDED_OVER_CAP, WORKLOAD
from appliance.errors import ApplianceError

Resource = dict[str, Any]
PRIORITY = {"train": 50, "build": 100, "inference": 125}
NEVER_EVICTED = 100
GROUP = "appliance/fabric-group"
HOSTNAME = "kubernetes.io/hostname"
START_S = 2.0
LATE_S = 30.0
"""When a slow Job controller makes a job's pods."""


def node(name: str, gpus: int, *, mig: int = 0, group: str = "") -> Resource:
    labels = {HOSTNAME: name, "nvidia.com/gpu.memory": "81920"} | ({GROUP: group} if group else {})
    offered = {GPU: str(gpus)} | ({f"{MIG}1g.10gb": str(mig)} if mig else {})
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {},
        "status": {
            "allocatable": offered,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


FOUR_HOSTS = (
    node("n1", 2, group="a"),
    node("n2", 2, group="a"),
    node("n3", 2, group="b"),
    node("n4", 2, group="b"),
    node("cut", 0, mig=3),
)
ONE_HOST = (node("n1", 8),)


@dataclass
class Pod:
    """A pod and what it asks for."""

    name: str
    job: str
    spec: Resource
    labels: dict[str, str]
    marks: dict[str, str]
    born: float
    node: str = ""
    slots: dict[int, float] = field(default_factory=dict)
    phase: str = "Pending"
    bound: float = 0.0
    exit_code: int | None = None
    group: Resource = field(default_factory=dict)

    @property
    def asked(self) -> dict[str, str]:
        asked: dict[str, str] = self.spec["containers"][0]["resources"]["limits"]
        return asked

    @property
    def gpus(self) -> int:
        return int(self.asked.get(GPU, 0))

    @property
    def part(self) -> float:
        return float(self.marks.get("gpu-fraction", 0))

    @property
    def mig(self) -> str:
        return next((key for key in self.asked if key.startswith(MIG)), "")

    @property
    def size(self) -> float:
        return self.gpus + self.part

    @property
    def queue(self) -> str:
        return self.labels.get(QUEUE_LABEL, "")

    @property
    def priority(self) -> int:
        return PRIORITY.get(self.spec.get("priorityClassName", ""), 0)

    @property
    def gang(self) -> int:
        return int(self.group.get("minMember", 1))

    @property
    def near(self) -> bool:
        return "topologyConstraint" in self.group

    @property
    def holds(self) -> bool:
        return bool(self.node) and self.phase in {"Pending", "Running"}

    def resource(self) -> Resource:
        status: Resource = {"phase": self.phase}
        if self.exit_code is not None:
            status["containerStatuses"] = [{"state": {"terminated": {"exitCode": self.exit_code}}}]
        meta = {
            "name": self.name,
            "uid": f"{self.name} {self.born:g}",
            "labels": self.labels,
            "annotations": self.marks,
        }
        meta["namespace"] = "appliance-acceptance" if self.job else "team"
        spec = self.spec | ({"nodeName": self.node} if self.node else {})
        return {"metadata": meta, "spec": spec, "status": status}


class Cluster:
    """An API server with its Job controller, kubelets and time keeper; what schedules is a subclass's."""

    def __init__(
        self, nodes: Iterable[Resource] = FOUR_HOSTS, *faults: str, knows: bool = True
    ) -> None:
        self.nodes = {n["metadata"]["name"]: n for n in nodes}
        self.faults = frozenset(faults)
        self.things: dict[tuple[str, str, str], Resource] = {}
        self.pods: dict[str, Pod] = {}
        self.knows = knows
        self.silent = False
        self.time = 0.0
        self._made = 0
        self._born: dict[str, float] = {}
        self._awaited: dict[str, tuple[float, Resource]] = {}

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        end = self.time + seconds
        while self.time < end:
            self.time += 1.0
            self._make_pods()
            self.schedule()
            self._run_pods()
            self._keep_time()

    def series(self, query: str) -> bool:
        if "DCGM" in query:
            return "no use" not in self.faults
        return "no metrics" not in self.faults and self.knows and "kai_queue" in query

    def find(self, api_version: str, kind: str, selector: str) -> list[Resource]:
        if self.silent:
            raise ApplianceError("the API server did not answer in 30 s", "see whether it runs")
        wanted = dict(pair.split("=") for pair in selector.split(",") if pair)
        return [
            copy.deepcopy(item)
            for item in self._all(api_version, kind)
            if wanted.items() <= item["metadata"].get("labels", {}).items()
        ]

    def _all(self, api_version: str, kind: str) -> Iterator[Resource]:
        if kind == "Node":
            yield from self.nodes.values()
        elif kind == "Pod":
            yield from (pod.resource() for pod in self.pods.values())
        elif kind == "CustomResourceDefinition" and self.knows:
            yield from ({"metadata": {"name": name}} for name in (QUEUES, GROUPS))
        elif kind == "Config" and self.knows:
            sharing = "shares none" not in self.faults
            yield {
                "metadata": {"name": "kai-config"},
                "spec": {"admission": {"gpuSharing": sharing}},
            }
        elif kind == "PriorityClass" and self.knows:
            yield from ({"metadata": {"name": name}} for name in PRIORITY)
        elif kind == "Topology" and self.knows:
            levels = [{"nodeLabel": GROUP}, {"nodeLabel": HOSTNAME}]
            yield {"metadata": {"name": "fabric"}, "spec": {"levels": levels}}
        elif kind == "Namespace" and self.knows:
            yield {"metadata": {"name": "appliance-limits", "labels": {"appliance/limits": "true"}}}
            yield from self._things(kind)
        else:
            yield from self._things(kind)

    def _things(self, kind: str) -> Iterator[Resource]:
        return (thing for key, thing in self.things.items() if key[0] == kind)

    def apply(self, resource: Resource) -> None:
        meta = resource["metadata"]
        if resource["kind"] == "Queue" and not self.knows:
            raise ApplianceError("the cluster does not know Queue", "")
        if resource["kind"] == "Pod":
            self._awaited.setdefault(meta["name"], (self.time, copy.deepcopy(resource)))
            return
        key = (resource["kind"], meta.get("namespace", ""), meta["name"])
        self._born[meta["name"]] = self.time
        self.things[key] = copy.deepcopy(resource)

    def delete(self, name: Name) -> None:
        _, kind, called, namespace = name
        if kind == "Pod" and "pods stay" not in self.faults:
            self.pods.pop(called, None)
            self._awaited.pop(called, None)
        self.things.pop((kind, namespace, called), None)

    def jobs(self) -> dict[str, Resource]:
        return {key[2]: thing for key, thing in self.things.items() if key[0] == "Job"}

    def queues(self) -> dict[str, Resource]:
        return {
            key[2]: thing["spec"]["resources"]["gpu"]
            for key, thing in self.things.items()
            if key[0] == "Queue" and "parentQueue" in thing["spec"]
        }

    def evict(self, pod: Pod) -> None:
        self.pods.pop(pod.name, None)
        if "no resume" in self.faults:
            self.things.pop(("Job", "appliance-acceptance", pod.job), None)

    def stranger(self, gpus: int) -> None:
        """A pod of somebody else that holds GPUs."""
        spec = {"containers": [{"resources": {"limits": {GPU: str(gpus)}}}]}
        self.pods["other"] = Pod("other", "", spec, {}, {}, 0.0, "n1", {0: 1.0}, "Running")

    def schedule(self) -> None:
        raise NotImplementedError

    def _make_pods(self) -> None:
        for name, job in self.jobs().items():
            if "late pods" in self.faults and self.time - self._born.get(name, 0) < LATE_S:
                continue
            own = [pod for pod in self.pods.values() if pod.job == name]
            for _ in range(job["spec"]["parallelism"] - len(own)):
                self._made += 1
                template = job["spec"]["template"]
                called = f"{name}-{self._made}"
                meta = template["metadata"]
                self.pods[called] = Pod(
                    called, name, template["spec"], meta["labels"], meta["annotations"], self.time
                )

        self._make_grouped()

    def _make_grouped(self) -> None:
        """Pods somebody made without a controller."""
        late = LATE_S if "late pods" in self.faults else 0.0
        for name, (asked, resource) in list(self._awaited.items()):
            if self.time - asked < late or name in self.pods:
                continue
            del self._awaited[name]
            meta = resource["metadata"]
            key = ("PodGroup", meta["namespace"], meta["annotations"][GROUP_OF_POD])
            group = self.things.get(key, {}).get("spec", {})
            known = (meta["labels"], meta["annotations"], self.time)
            job = meta["labels"][WORKLOAD]
            self.pods[name] = Pod(name, job, resource["spec"], *known, group=group)

    def _run_pods(self) -> None:
        for pod in self.pods.values():
            if not pod.holds or not pod.job:
                continue
            age = self.time - pod.bound
            if pod.phase == "Pending" and age >= START_S and "no image" not in self.faults:
                pod.phase = "Running"
            command = pod.spec["containers"][0]["command"]
            if command[0] == "sleep" and age >= START_S + float(command[1]):
                pod.phase, pod.exit_code = "Succeeded", 0
            if command[0] == "python3" and age >= START_S + 5:
                capped = "memory not capped" not in self.faults
                pod.exit_code = (
                    1 if "no torch" in self.faults else 0 if capped else SUCCEEDED_OVER_CAP
                )
                pod.phase = "Failed" if pod.exit_code else "Succeeded"

    def _keep_time(self) -> None:
        for key, thing in list(self.things.items()):
            if key[0] != "ConfigMap":
                continue
            for text in thing["data"].values():
                self._end_late(json.loads(text))

    def _end_late(self, given: dict[str, str]) -> None:
        kept = {"timeLimit": "no time limit", "idleLimit": "no idle limit"}
        if not any(key in given and fault not in self.faults for key, fault in kept.items()):
            return
        for pod in list(self.pods.values()):
            theirs = pod.queue == given["queue"] or "limits for all" in self.faults
            after = 5 if "ends at once" in self.faults else 60
            if pod.phase == "Running" and theirs and self.time - pod.bound > after:
                self.things.pop(("Job", "appliance-acceptance", pod.job), None)
                self.pods.pop(pod.name)

    def free(self) -> dict[str, list[float]]:
        """By node, what is left of each GPU."""
        left = {
            name: [1.0] * int(n["status"]["allocatable"].get(GPU, 0))
            for name, n in self.nodes.items()
        }
        for pod in self.pods.values():
            if pod.holds:
                for slot, part in pod.slots.items():
                    left[pod.node][slot] -= part
        return left

    def mig_left(self, name: str, profile: str) -> int:
        offered = int(self.nodes[name]["status"]["allocatable"].get(profile, 0))
        return offered - sum(
            p.holds and p.node == name and p.mig == profile for p in self.pods.values()
        )

    def bind(self, pod: Pod, name: str, slots: dict[int, float]) -> None:
        pod.node, pod.slots, pod.bound = name, slots, self.time


class Stock(Cluster):
    """Kubernetes' own scheduler: pod by pod, spread over hosts, no queues, no parts; displaces what has less priority."""

    def schedule(self) -> None:
        for pod in sorted(self._waiting(), key=lambda p: -p.priority):
            if not self._place(pod) and self._displace(pod):
                self._place(pod)

    def _waiting(self) -> list[Pod]:
        return [pod for pod in self.pods.values() if not pod.node]

    def _place(self, pod: Pod) -> bool:
        free = self.free()
        for name in sorted(free, key=lambda n: -sum(free[n])):
            slots = [slot for slot, left in enumerate(free[name]) if left == 1.0]
            pinned = pod.spec.get("nodeSelector", {}).get(HOSTNAME, name)
            if (
                pinned != name
                or len(slots) < pod.gpus
                or (pod.mig and self.mig_left(name, pod.mig) < 1)
            ):
                continue
            self.bind(pod, name, dict.fromkeys(slots[: pod.gpus], 1.0))
            return True
        return False

    def _displace(self, pod: Pod) -> bool:
        victims = [
            p for p in self.pods.values() if p.holds and p.priority < pod.priority and p.gpus
        ]
        if not pod.gpus or not victims:
            return False
        self.evict(victims[-1])
        return True
