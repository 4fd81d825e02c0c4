"""Runs trials in a namespace of their own on a cluster, observes them, and cleans up."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from appliance.acceptance import capacity as capacities
from appliance.acceptance.capacity import CLASSES, TRIAL, Capacity
from appliance.acceptance.timeline import Moment, Observation, Timeline
from appliance.acceptance.workload import (
    GROUP_FORM,
    NAMESPACE,
    PREFIX,
    WORKLOAD,
    Work,
    queue,
    queue_name,
    resources,
)
from appliance.errors import ApplianceError

Resource = dict[str, Any]
Name = tuple[str, str, str, str]
"""API version, kind, name, namespace ("" for none)."""

MINE = f"{TRIAL}=true"
LIMITS = "appliance-limits"
"""Namespace and role of the appliance's program for time limits, created by appliance queue apply."""
RBAC = "rbac.authorization.k8s.io"
LEFT = (
    ("batch/v1", "Job"),
    GROUP_FORM,
    ("v1", "Pod"),
    ("v1", "ConfigMap"),
    ("rbac.authorization.k8s.io/v1", "RoleBinding"),
    ("v1", "Namespace"),
)


class ClusterClient(Protocol):
    """What a trial needs of a cluster; all methods raise ApplianceError with a remedy."""

    def find(self, api_version: str, kind: str, selector: str) -> list[Resource]:
        """Return all resources of a kind with these labels ("" for all); empty if the cluster does not have the kind."""
        ...

    def apply(self, resource: Resource) -> None:
        """Set the named fields to the given values."""
        ...

    def delete(self, name: Name) -> None:
        """Delete it; an absent resource counts as deleted."""
        ...


class Clock(Protocol):
    """Let time pass."""

    def now(self) -> float: ...
    def sleep(self, seconds: float) -> None: ...


PLAIN = (
    "docker.io/library/busybox:1.36.1"
    "@sha256:73aaf090f3d85aa34ee199857f03fa3a95c8ede2ffd4cc2cdb5b94e566b11662"
)
"""The image of pods that only wait; busybox 1.36.1 as pinned by public deployments, seen 2026-11-22."""


@dataclass(frozen=True)
class Settings:
    """``patience``: seconds to wait for an expected event, plus ``a_pod`` for each pod that fills the cluster;
    ``quiet``: seconds to watch that an event does not occur.
    KAI reclaims one pod of a job per cycle, at most once a second (v0.12 to v0.18, reclaim.go).
    """

    scheduler: str = "kai-scheduler"
    image: str = PLAIN
    gpu_image: str = ""
    patience: float = 180.0
    a_pod: float = 2.0
    quiet: float = 30.0
    beat: float = 2.0


class Sandbox:
    """The sandbox of one promise. ``timeline`` holds the observations."""

    def __init__(
        self,
        cluster: ClusterClient,
        clock: Clock,
        settings: Settings,
        capacity: Capacity,
        series: Callable[[str], bool] | None = None,
    ) -> None:
        self._cluster, self._clock, self._settings = cluster, clock, settings
        self.capacity = capacity
        self.timeline = Timeline()
        self._series = series
        self._began = clock.now()
        self._phase = "start"
        self._grouped: dict[str, Resource] = {}
        self._known: dict[Observation, Observation] = {}

    @property
    def settings(self) -> Settings:
        """Its patience, and its images."""
        return self._settings

    def open(self) -> None:
        """Create an empty namespace, and the default queue of all workloads."""
        self._clear()
        self._phase = "start"
        labels = {TRIAL: "true", "pod-security.kubernetes.io/enforce": "restricted"}
        meta = {"name": NAMESPACE, "labels": labels}
        self._cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
        if self.capacity.queues:
            self._cluster.apply(queue(PREFIX, self.capacity.gpus))
            self.queue("work", self.capacity.gpus)

    def queue(self, name: str, quota: float, *, limit: float = -1, weight: float = 1) -> None:
        """Create a queue of the trial below its own root."""
        if self.capacity.queues:
            made = queue(queue_name(name), quota, limit=limit, weight=weight, parent=PREFIX)
            self._cluster.apply(made)

    def limits(self, queue: str, given: Mapping[str, str]) -> None:
        """Set the limits of the queue's work, where the appliance's own program reads them; without its namespace, nowhere."""
        if not self._cluster.find("v1", "Namespace", "appliance/limits=true"):
            return
        labels = {TRIAL: "true", "appliance/limits": "true"}
        told = json.dumps({"queue": queue_name(queue), **given}, sort_keys=True)
        home = {"name": NAMESPACE, "namespace": LIMITS, "labels": labels}
        here = {"name": LIMITS, "namespace": NAMESPACE, "labels": {TRIAL: "true"}}
        account = {"kind": "ServiceAccount", "name": LIMITS, "namespace": LIMITS}
        self._cluster.apply(
            {
                "apiVersion": f"{RBAC}/v1",
                "kind": "RoleBinding",
                "metadata": here,
                "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": LIMITS},
                "subjects": [account],
            }
        )
        self._cluster.apply(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": home, "data": {queue: told}}
        )

    def submit(self, *works: Work) -> None:
        """Submit work to the cluster."""
        for work in works:
            for resource in resources(
                work,
                image=self._settings.image,
                scheduler=self._settings.scheduler,
                classes=self.capacity.classes,
                groups=self.capacity.groups,
            ):
                self._cluster.apply(resource)
                if resource["kind"] == "Pod":
                    self._grouped[resource["metadata"]["name"]] = resource

    def remove(self, *names: str) -> None:
        """Delete workloads, and wait until their pods are deleted. Raises ApplianceError if they remain."""
        for name in names:
            self._cluster.delete(("batch/v1", "Job", name, NAMESPACE))
            for pod in self._grouped.copy():
                if self._grouped[pod]["metadata"]["labels"][WORKLOAD] == name:
                    del self._grouped[pod]
            self._delete("v1", "Pod", f"{MINE},{WORKLOAD}={name}")
            self._delete(*GROUP_FORM, f"{MINE},{WORKLOAD}={name}")
        self._await_gone(lambda moment: not any(moment.of(name) for name in names))

    def phase(self, name: str) -> None:
        """Begin a phase; later observations belong to it."""
        self._phase = name

    def until(self, reached: Callable[[Moment], bool], more: float = 0.0) -> bool:
        """Observe until the condition holds, or patience and ``more`` seconds end; then a little longer, to detect what does not last."""
        found = self._wait(reached, more)
        self.watch(self._settings.quiet / 3)
        return found

    def until_placed(self, *names: str, pods: int | None = None) -> bool:
        """Observe until this number of pods is placed (default: one of each), or patience ends."""
        count = len(names) if pods is None else pods
        return self.until(lambda now: now.placed(*names) == count)

    def watch(self, seconds: float | None = None) -> None:
        """Observe for a while, by default for ``quiet``."""
        end = self._clock.now() + (self._settings.quiet if seconds is None else seconds)
        self._observe()
        while self._clock.now() < end:
            self._clock.sleep(self._settings.beat)
            self._observe()

    def note_series(self, name: str, query: str) -> None:
        """Note whether Prometheus has such series; None if there is no Prometheus."""
        self.timeline.notes[name] = self._series(query) if self._series else None

    @property
    def _patience(self) -> float:
        return self._settings.patience + self._settings.a_pod * self.capacity.units

    def _wait(self, reached: Callable[[Moment], bool], more: float = 0.0) -> bool:
        end = self._clock.now() + self._patience + more
        while not reached(self._observe()):
            if self._clock.now() >= end:
                return False
            self._clock.sleep(self._settings.beat)
        return True

    def _await_gone(self, gone: Callable[[Moment], bool]) -> None:
        """Remaining pods hold GPUs, and the scheduler would be blamed for it."""
        if not self._wait(gone):
            raise ApplianceError(
                f"pods of the trial are still there {self._patience:g} s after they were deleted",
                f"kubectl -n {NAMESPACE} get pods -o wide shows their host; check the kubelet log there",
            )

    def _observe(self) -> Moment:
        found = self._cluster.find("v1", "Pod", MINE)
        self._make_again({pod["metadata"]["name"] for pod in found})
        moment = Moment(self._phase, self._clock.now() - self._began, self._remembered(found))
        self.timeline.moments.append(moment)
        return moment

    def _remembered(self, found: list[Resource]) -> tuple[Observation, ...]:
        """Store an unchanged state once, however often it is observed: a waiting trial observes a thousand times."""
        pods = tuple(self._known.setdefault(seen, seen) for seen in map(_observation, found))
        last = self.timeline.moments[-1].pods if self.timeline.moments else ()
        return last if pods == last else pods

    def _make_again(self, there: set[str]) -> None:
        """Pods of a group have no controller: this program recreates an evicted pod as a controller would, but without back-off."""
        for name, pod in self._grouped.items():
            if name not in there:
                self._cluster.apply(pod)

    def _delete(self, api_version: str, kind: str, selector: str) -> None:
        for found in self._cluster.find(api_version, kind, selector):
            meta = found["metadata"]
            self._cluster.delete((api_version, kind, meta["name"], meta.get("namespace", "")))

    def _clear(self) -> None:
        """Remove the workloads and queues of the previous promise."""
        self._grouped.clear()
        for api_version, kind in LEFT[:-1]:
            self._delete(api_version, kind, MINE)
        self._phase = "before"
        self._await_gone(
            lambda moment: not moment.pods and not self._cluster.find("batch/v1", "Job", MINE)
        )
        # Children first: the API refuses to delete a parent with children.
        queues = self._cluster.find("scheduling.run.ai/v2", "Queue", MINE)
        for found in sorted(queues, key=lambda q: "parentQueue" not in q["spec"]):
            self._cluster.delete(("scheduling.run.ai/v2", "Queue", found["metadata"]["name"], ""))


def clean(cluster: ClusterClient) -> None:
    """Remove everything that trials ever created, also killed ones."""
    for api_version, kind in (*LEFT, ("scheduling.run.ai/v2", "Queue")):
        found = cluster.find(api_version, kind, MINE)
        for item in sorted(found, key=lambda r: "parentQueue" not in r.get("spec", {})):
            meta = item["metadata"]
            cluster.delete((api_version, kind, meta["name"], meta.get("namespace", "")))


def survey(cluster: ClusterClient, settings: Settings, *, metrics: bool) -> Capacity:
    """Return the capacity of the cluster. Raises ApplianceError if it does not answer."""
    definitions = cluster.find("apiextensions.k8s.io/v1", "CustomResourceDefinition", "")
    classes = cluster.find("scheduling.k8s.io/v1", "PriorityClass", "")
    levels = [
        (t["metadata"]["name"], tuple(level["nodeLabel"] for level in t["spec"]["levels"]))
        for t in cluster.find("kai.scheduler/v1alpha1", "Topology", "")
    ]
    found = capacities.read(cluster.find("v1", "Node", ""), cluster.find("v1", "Pod", ""))
    return replace(
        found,
        definitions=frozenset(d["metadata"]["name"] for d in definitions),
        classes=frozenset(c["metadata"]["name"] for c in classes).intersection(CLASSES),
        topologies=tuple(levels),
        gpu_image=settings.gpu_image,
        shared=not any(map(_shares_none, cluster.find("kai.scheduler/v1", "Config", ""))),
        metrics=metrics,
    )


def _shares_none(config: Resource) -> bool:
    """Return whether KAI's admission refuses parts of GPUs, as with the site's ``sharing: none``."""
    return config.get("spec", {}).get("admission", {}).get("gpuSharing") is False


def _observation(pod: Resource) -> Observation:
    status = pod.get("status", {})
    ended = [
        container["state"]["terminated"]["exitCode"]
        for container in status.get("containerStatuses", [])
        if "terminated" in container.get("state", {})
    ]
    meta = pod["metadata"]
    return Observation(
        workload=meta["labels"].get(WORKLOAD, ""),
        uid=meta.get("uid", meta["name"]),
        node=pod["spec"].get("nodeName", ""),
        phase=status.get("phase", "Pending"),
        ending="deletionTimestamp" in meta,
        exit_code=ended[0] if ended else None,
    )
