"""Fake pods, as several test modules use it."""

import subprocess  # noqa: TID251 - a pod's program is run by a real shell
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from appliance.adapters.kubernetes import Ref
from appliance.adapters.pods import NAMESPACE, PodTemplate
from appliance.adapters.process import Completed
from appliance.errors import ClusterFailed

Resource = dict[str, Any]


PLAIN = PodTemplate("busybox:1")


PENDING = {
    "phase": "Pending",
    "conditions": [{"status": "False", "message": "0/3 nodes: 1 Insufficient nvidia.com/gpu"}],
}


class Beside:
    """Hosts by ssh."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def run(
        self, host: str, argv: Sequence[str], *, input: bytes | None = None, timeout: float = 60
    ) -> Completed:
        self.asked.append(host)
        return Completed(tuple(argv), 0, "by ssh\n", "")

    def reach(self, host: str) -> None: ...

    def leave(self, host: str) -> None: ...


@dataclass
class Cluster:
    """One whose pods end at once, their program run here; ``status``: what all pods say instead."""

    gpus: str = "8"
    status: Mapping[str, Any] | None = None
    down: str = ""
    applied: list[Resource] = field(default_factory=list)
    deleted: list[Ref] = field(default_factory=list)
    said: dict[str, Completed] = field(default_factory=dict)

    def get(self, ref: Ref) -> Resource | None:
        self._up("get")
        return (
            None
            if ref.name == "gone"
            else {"status": {"allocatable": {"nvidia.com/gpu": self.gpus}}}
        )

    def find(self, api_version: str, kind: str, selector: str) -> list[Resource]:
        self._up("find")
        name = selector.removeprefix("job-name=")
        job = next(r for r in self.applied if r["metadata"]["name"] == name)
        status = self.status
        if status is None:
            command = job["spec"]["template"]["spec"]["containers"][0]["command"]
            done = subprocess.run(
                command[2:], capture_output=True, text=True, check=False, timeout=30
            )
            self.said[name] = Completed(
                tuple(command), done.returncode, done.stdout + done.stderr, ""
            )
            ended = {"terminated": {"exitCode": done.returncode}}
            status = {"phase": "Succeeded", "containerStatuses": [{"state": ended}]}
        meta = {"name": name, "namespace": NAMESPACE}
        return [{"apiVersion": "v1", "kind": "Pod", "metadata": meta, "status": status}]

    def logs(self, pod: Ref) -> str:
        self._up("logs")
        return self.said[pod.name].stdout

    def apply(self, resource: Resource) -> Resource:
        self._up("apply")
        self.applied.append(resource)
        return resource

    def serves(self, api_version: str, kind: str) -> bool:
        raise AssertionError("no kind is asked for")

    def label(self, node: str, labels: Mapping[str, str | None]) -> bool:
        raise AssertionError("nothing is labelled")

    def delete(self, ref: Ref) -> None:
        self.deleted.append(ref)

    def _up(self, call: str) -> None:
        if call == self.down:
            raise ClusterFailed("the API server does not accept connections", "see whether it runs")


class Time:
    """Passes by sleeping."""

    def __init__(self) -> None:
        self.at = 0.0

    def now(self) -> float:
        return self.at

    def sleep(self, seconds: float) -> None:
        self.at += seconds
