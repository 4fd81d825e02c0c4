"""Hello cluster, as several test modules use it."""

import copy
from typing import Any

from appliance.acceptance.hello_parts import HELLO, Where
from appliance.acceptance.sandbox import Name, Resource
from appliance.acceptance.workload import QUEUE_LABEL
from appliance.errors import ApplianceError
from appliance.stages.workloads.table import table

IMAGES = {name: image or f"example/{name}:1" for name, image in table().images.items()}


WHERE = Where("kai-team", "team-train", "kai-scheduler", IMAGES, "nfs")


DONE: dict[str, Resource] = {
    "nfs_csi": {"conditions": [{"type": "Complete", "status": "True"}]},
    "jobset": {"terminalState": "Completed"},
    "lws": {"conditions": [{"type": "Available", "status": "True"}]},
    "mpi_operator": {"conditions": [{"type": "Succeeded", "status": "True"}]},
    "trainer": {"conditions": [{"type": "Complete", "status": "True"}]},
    "kuberay": {"jobStatus": "SUCCEEDED"},
    "jupyter": {"conditions": [{"type": "Complete", "status": "True"}]},
    "vllm": {"conditions": [{"type": "Complete", "status": "True"}]},
    "mlflow": {"conditions": [{"type": "Complete", "status": "True"}]},
    "dask_operator": {"jobStatus": "Successful"},
    "network_policies": {"conditions": [{"type": "Complete", "status": "True"}]},
    "spark_operator": {"applicationState": {"state": "COMPLETED"}},
}


FAILED: Resource = {"conditions": [{"type": "Failed", "status": "True"}], "terminalState": "Failed"}


OTHERWISE: dict[str, Resource] = {"dask_operator": {"jobStatus": "Failed"}}
"""Words of failure that differ."""


def templates(found: Any) -> list[Resource]:
    """Every pod's template in a resource."""
    if isinstance(found, list):
        return [t for item in found for t in templates(item)]
    if not isinstance(found, dict):
        return []
    own = [found] if "containers" in found.get("spec", {}) else []
    return own + [t for value in found.values() for t in templates(value)]


class Cluster:
    """Whose operators make one pod of each template; a fault makes them go astray."""

    def __init__(self, *faults: str) -> None:
        self.faults = set(faults)
        self.things: dict[tuple[str, str], Resource] = {}
        self.going: dict[tuple[str, str], float] = {}
        self.time = 0.0

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time += seconds
        for ref in [ref for ref, until in self.going.items() if until <= self.time]:
            del self.going[ref], self.things[ref]

    def apply(self, resource: Resource) -> None:
        if "not installed" in self.faults:
            raise ApplianceError("the cluster does not know it", "appliance deploy")
        ref = resource["kind"], resource["metadata"]["name"]
        assert ref not in self.going, f"{ref} was applied to what is being deleted"
        self.things[ref] = copy.deepcopy(resource)

    def delete(self, name: Name) -> None:
        if "slow to go" in self.faults:
            self.going.setdefault((name[1], name[2]), self.time + 60)
        elif "never goes" in self.faults:
            self.going[name[1], name[2]] = float("inf")
        else:
            del self.things[name[1], name[2]]

    def find(self, api_version: str, kind: str, selector: str) -> list[Resource]:
        del api_version
        key = selector.partition("=")[2]
        made = [t for t in self.things.values() if t["metadata"]["labels"][HELLO] == key]
        if kind == "Pod":
            found = [t for thing in made for t in templates(thing)]
            return (
                [] if "no pods" in self.faults else [self._pod(i, t) for i, t in enumerate(found)]
            )
        return [{**t, "status": self._status(key)} for t in made if t["kind"] == kind]

    def _status(self, key: str) -> Resource:
        if "fails" in self.faults:
            return FAILED | OTHERWISE.get(key, {})
        ends = not self.faults & {"never ends", "no room", "no image"}
        return DONE[key] if ends else {}

    def _pod(self, number: int, template: Resource) -> Resource:
        pod = copy.deepcopy(template)
        pod["metadata"] |= {"name": f"pod-{number}", "namespace": WHERE.namespace}
        if "other scheduler" in self.faults:
            pod["spec"]["schedulerName"] = "default-scheduler"
        if "other queue" in self.faults:
            pod["metadata"]["labels"][QUEUE_LABEL] = "other"
        if "no room" in self.faults:
            pod["status"] = {"conditions": [{"message": "queue is over its quota"}]}
            return pod
        pod["spec"]["nodeName"] = "gpu-1"
        if "no image" in self.faults:
            waiting = {"waiting": {"reason": "ImagePullBackOff"}}
            pod["status"] = {"containerStatuses": [{"image": "a/b:1", "state": waiting}]}
        return pod
