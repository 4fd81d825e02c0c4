"""The GPUs of a host, and the parts of them, as resources of Kubernetes: read through NVML."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from appliance.probe import mig
from appliance.probe.nvml import Failure, Library
from appliance.probe.problems import Absent, Unreadable

if TYPE_CHECKING:
    from typing import Any

WHOLE = "nvidia.com/gpu"
PART = "nvidia.com/mig-"


@dataclass(frozen=True)
class Device:
    """A device that a container can get; ``gpu`` is the UUID of its GPU, of which it may be a part."""

    id: str
    resource: str
    gpu: str
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Reading:
    """All devices there are at a moment, and the GPUs that answered."""

    devices: tuple[Device, ...] = ()
    answered: frozenset[str] = frozenset()


def read() -> Reading:
    """The GPUs according to NVML; empty while no driver is loaded."""
    try:
        library = Library()
    except (Absent, Unreadable):
        return Reading()
    try:
        return reading(library)
    finally:
        library.close()


def reading(library: Library) -> Reading:
    """The GPUs that answer; one that is lost does not."""
    devices: list[Device] = []
    answered = set()
    for index in range(library.number("nvmlDeviceGetCount_v2") or 0):
        try:
            handle = library.handle(index)
            gpu = library.text("nvmlDeviceGetUUID", handle)
            devices += _devices(library, handle, gpu)
        except Failure:
            continue
        answered.add(gpu)
    return Reading(tuple(devices), frozenset(answered))


def _devices(library: Library, handle: Any, gpu: str) -> Iterator[Device]:
    minor = library.number("nvmlDeviceGetMinorNumber", handle) or 0
    nodes = (f"/dev/nvidia{minor}", "/dev/nvidiactl")
    if (mode := mig.mode(library, handle)) and mode[0]:
        yield from _parts(mig.facts(library, handle) or [], gpu, nodes)
        return
    yield Device(gpu, WHOLE, gpu, nodes)


def _parts(instances: list[dict[str, Any]], gpu: str, nodes: tuple[str, ...]) -> Iterator[Device]:
    """MIG devices under the names that strategy ``mixed`` of NVIDIA's plugin gives them."""
    for instance in instances:
        parts = instance["parts"]
        for part in parts:
            slices = f"{part['slices']}c." if len(parts) > 1 else ""
            profile = instance["profile"].replace("+", ".")
            resource = f"{PART}{slices}{profile}"
            yield Device(part["uuid"], resource, gpu, (*nodes, *part["nodes"]))
