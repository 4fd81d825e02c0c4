"""Tests that a container sees exactly the GPUs it requested: five pods on one host list the devices in their /dev."""

import copy
import re
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from appliance.acceptance.capacity import GPU, Capacity
from appliance.acceptance.promise import KEPT, Judgement, broken, unknown
from appliance.acceptance.sandbox import (
    MINE,
    Clock,
    ClusterClient,
    Name,
    Resource,
    Sandbox,
    Settings,
)
from appliance.acceptance.workload import NAMESPACE, WORKLOAD, Work, resources
from appliance.errors import ApplianceError

NONE, ASKING, ONE, TWO, BOTH = "none", "by-variable", "one", "two", "two-containers"
SECOND = "second"
"""The container of BOTH that requests no GPU."""
HELD = 3
"""GPUs that the trial holds at the same time, on one host."""
VARIABLE = "NVIDIA_VISIBLE_DEVICES"
TOLD = "appliance-told"
SCRIPT = f'for d in /dev/nvidia[0-9]*; do [ -e "$d" ] && echo "$d"; done; echo {TOLD}; sleep 7200'
DEVICE = re.compile(r"^/dev/nvidia\d+$", re.MULTILINE)
Devices = Mapping[tuple[str, str], frozenset[str]]
"""Device files of GPUs that each container sees, by pod and container."""


class Hearing(ClusterClient, Protocol):
    """A cluster that can also return the output of a pod."""

    def logs(self, pod: Name, container: str) -> str:
        """Return what this container has printed so far."""
        ...


def host_of(capacity: Capacity) -> str:
    """Return the GPU host that the trial uses; "" if none has enough GPUs."""
    fitting = [node for node in capacity.gpu_nodes if node.gpus >= HELD]
    return max(fitting, key=lambda node: node.gpus).name if fitting else ""


def lacks(capacity: Capacity) -> str:
    """Needs one host with three free GPUs."""
    if reason := capacity.lacks(gpus=HELD):
        return reason
    return "" if host_of(capacity) else f"needs a host with {HELD} GPUs"


def watched(cluster: Hearing, clock: Clock, settings: Settings, capacity: Capacity) -> Devices:
    """Return what each container sees. Raises ApplianceError if one of them reports nothing."""
    sandbox = Sandbox(cluster, clock, settings, capacity)
    sandbox.open()
    at = host_of(capacity)
    works = [
        Work(name, gpus=gpus, pinned=at, command=("sh", "-c", SCRIPT))
        for name, gpus in ((NONE, 0), (ASKING, 0), (ONE, 1), (TWO, 1), (BOTH, 1))
    ]
    for work in works:
        for made in _created(work, settings, capacity):
            cluster.apply(made)
    pods = [work.name for work in works]
    sandbox.until(lambda now: all(_runs(now.of(name)) for name in pods))
    found: dict[tuple[str, str], frozenset[str]] = {}
    for pod in cluster.find("v1", "Pod", MINE):
        name = pod["metadata"]["labels"].get(WORKLOAD, "")
        for container in pod["spec"]["containers"]:
            found[name, container["name"]] = _devices_of(
                cluster, clock, settings, pod, container["name"]
            )
    if missing := [name for name in pods if not any(pod == name for pod, _ in found)]:
        raise ApplianceError(
            f"no pod of {missing[0]} was created", "check the Job controller's log"
        )
    return found


def judge(seen: Devices) -> Judgement:
    """No GPU without a request, as many as requested, and none of another container."""
    unasked = {
        (NONE, "work"): "a pod that requested no GPU",
        (ASKING, "work"): f"a pod that requested no GPU but set {VARIABLE}=all",
        (BOTH, SECOND): "a container that requested no GPU, in a pod with one that requested a GPU",
    }
    for at, who in unasked.items():
        if devices := seen.get(at):
            return broken(f"{who} sees {_spoken(devices)}")
    holders = [seen.get((name, "work"), frozenset()) for name in (ONE, TWO, BOTH)]
    if not any(holders):
        return unknown("no pod that requested a GPU has a device /dev/nvidiaN")
    for devices in holders:
        if len(devices) != 1:
            told = _spoken(devices) or "none"
            return broken(f"a container that requested one GPU sees {told}")
    if len(frozenset().union(*holders)) < HELD:
        return broken(f"two pods on one host see the same GPU ({_spoken(holders[0])})")
    return KEPT


def evidence(seen: Devices) -> dict[str, Any]:
    """Return the same as plain data."""
    return {f"{pod}/{container}": sorted(devices) for (pod, container), devices in seen.items()}


def _created(work: Work, settings: Settings, capacity: Capacity) -> list[Resource]:
    made = resources(
        work,
        image=settings.image,
        scheduler=settings.scheduler,
        classes=capacity.classes,
        groups=capacity.groups,
    )
    for resource in made:
        containers = resource["spec"]["template"]["spec"]["containers"]
        if work.name == ASKING:
            containers[0]["env"] = [{"name": VARIABLE, "value": "all"}]
        if work.name == BOTH:
            second = copy.deepcopy(containers[0])
            second["name"] = SECOND
            for asked in second["resources"].values():
                asked.pop(GPU, None)
            containers.append(second)
    return made


def _runs(pods: tuple[Any, ...]) -> bool:
    return any(pod.phase == "Running" for pod in pods)


def _devices_of(
    cluster: Hearing, clock: Clock, settings: Settings, pod: Resource, container: str
) -> frozenset[str]:
    name = pod["metadata"]["name"]
    if pod.get("status", {}).get("phase") != "Running":
        raise ApplianceError(
            f"pod {name} does not run {settings.patience:g} s after its creation",
            f"kubectl -n {NAMESPACE} describe pods, while the trial runs",
        )
    said = _until_told(
        lambda: cluster.logs(("v1", "Pod", name, NAMESPACE), container), clock, settings
    )
    if TOLD not in said:
        raise ApplianceError(
            f"container {container} of pod {name} printed nothing",
            "use an image that contains sh and sleep: --image",
        )
    return frozenset(DEVICE.findall(said))


def _until_told(read: Callable[[], str], clock: Clock, settings: Settings) -> str:
    end = clock.now() + settings.quiet
    while TOLD not in (said := read()) and clock.now() < end:
        clock.sleep(settings.beat)
    return said


def _spoken(devices: frozenset[str]) -> str:
    return ", ".join(sorted(devices))
