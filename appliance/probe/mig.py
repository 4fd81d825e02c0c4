"""Reads the MIG state of a GPU through NVML: mode, profiles, instances, devices; names and layouts are those of nvml.h."""

from __future__ import annotations

import ctypes

from appliance.probe import files
from appliance.probe.lines import lines_of
from appliance.probe.nvml import (
    INSUFFICIENT_SIZE,
    NO_PERMISSION,
    SUCCESS,
    UINT,
    ULONG,
    Failure,
    versioned,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from appliance.probe.nvml import Library

    Facts = dict[str, Any]

NOT_FOUND = 6
PROFILES, PART_PROFILES = range(16), range(8)
"""Numbers of NVML_GPU_INSTANCE_PROFILE_* and NVML_COMPUTE_INSTANCE_PROFILE_*; a GPU reports those it supports."""
MOST = 16
"""More instances than a GPU can have (7, at places 0 to 14)."""
NO_INSTANCE = 0xFFFFFFFF
"""NVML's instance id of a process that uses the whole GPU."""
MINORS = "/proc/driver/nvidia-caps/mig-minors"
NODES = "/dev/nvidia-caps/nvidia-cap"


class Place(ctypes.Structure):
    """nvmlGpuInstancePlacement_t: memory slices."""

    _fields_ = (("start", UINT), ("size", UINT))


class Profile(ctypes.Structure):
    """nvmlGpuInstanceProfileInfo_t."""

    _fields_ = (
        ("id", UINT),
        ("peer_to_peer", UINT),
        ("slices", UINT),
        ("maximum", UINT),
        ("multiprocessors", UINT),
        ("engines", UINT * 5),
        ("memory", ULONG),
    )


class NamedProfile(ctypes.Structure):
    """nvmlGpuInstanceProfileInfo_v2_t: the same with a name."""

    _fields_ = (
        ("version", UINT),
        ("id", UINT),
        ("peer_to_peer", UINT),
        ("slices", UINT),
        ("maximum", UINT),
        ("multiprocessors", UINT),
        ("engines", UINT * 5),
        ("memory", ULONG),
        ("name", ctypes.c_char * 96),
    )


class InstanceInfo(ctypes.Structure):
    """nvmlGpuInstanceInfo_t."""

    _fields_ = (
        ("device", ctypes.c_void_p),
        ("id", UINT),
        ("profile", UINT),
        ("place", Place),
    )


class PartProfile(ctypes.Structure):
    """nvmlComputeInstanceProfileInfo_t."""

    _fields_ = (
        ("id", UINT),
        ("slices", UINT),
        ("maximum", UINT),
        ("multiprocessors", UINT),
        ("engines", UINT * 5),
    )


class PartInfo(ctypes.Structure):
    """nvmlComputeInstanceInfo_t."""

    _fields_ = (
        ("device", ctypes.c_void_p),
        ("instance", ctypes.c_void_p),
        ("id", UINT),
        ("profile", UINT),
        ("place", Place),
    )


class Part:
    """A compute instance: its number, its compute slices, and the device that programs see."""

    def __init__(self, handle: Any, info: PartInfo, slices: int) -> None:
        self.handle = handle
        self.id = int(info.id)
        self.profile = int(info.profile)
        self.slices = slices
        self.uuid = ""


class Instance:
    """A GPU instance with its compute instances."""

    def __init__(self, handle: Any, info: InstanceInfo, name: str, slices: int) -> None:
        self.handle = handle
        self.id = int(info.id)
        self.profile = int(info.profile)
        self.name = name
        self.slices = slices
        self.start = int(info.place.start)
        self.size = int(info.place.size)
        self.parts: list[Part] = []


def mode(library: Library, device: Any) -> tuple[bool, bool] | None:
    """Return whether the GPU is in MIG mode, and whether it will be after its next reset; None if it lacks MIG. Raises Failure."""
    pair = library.numbers("nvmlDeviceGetMigMode", 2, device)
    return None if pair is None else (pair[0] == 1, pair[1] == 1)


def profiles(library: Library, device: Any) -> dict[int, tuple[str, int]]:
    """Return the GPU's instance profiles: id -> name, compute slices. Raises Failure."""
    found = {}
    for index in PROFILES:
        named = versioned(NamedProfile(), 2)
        if library.works(
            "nvmlDeviceGetGpuInstanceProfileInfoV", device, UINT(index), ctypes.byref(named)
        ):
            name = named.name.decode("utf-8", "replace").replace("MIG ", "")
            found[int(named.id)] = (name, int(named.slices))
            continue
        # Drivers before 460 know the record without a name only.
        plain = Profile()
        if library.works(
            "nvmlDeviceGetGpuInstanceProfileInfo", device, UINT(index), ctypes.byref(plain)
        ):
            name = f"{plain.slices}g.{round(plain.memory / 1024)}gb"
            found[int(plain.id)] = (name, int(plain.slices))
    return found


def places(library: Library, device: Any, profile: int) -> list[tuple[int, int]]:
    """Return possible placements of a profile: start and size; none while MIG mode is off. Raises Failure."""
    count, room = UINT(MOST), (Place * MOST)()
    known = library.works(
        "nvmlDeviceGetGpuInstancePossiblePlacements_v2",
        device,
        UINT(profile),
        ctypes.byref(room),
        ctypes.byref(count),
    )
    return [(int(p.start), int(p.size)) for p in room[: count.value]] if known else []


def instances(library: Library, device: Any) -> list[Instance] | None:
    """Return the GPU's instances by placement; None without permission. Raises Failure."""
    found: list[Instance] = []
    for profile, (name, slices) in profiles(library, device).items():
        count, room = UINT(MOST), (ctypes.c_void_p * MOST)()
        asked = (device, UINT(profile), ctypes.byref(room), ctypes.byref(count))
        if library.call("nvmlDeviceGetGpuInstances", *asked) == NO_PERMISSION:
            return None
        if not library.works("nvmlDeviceGetGpuInstances", *asked):
            continue
        for handle in room[: count.value]:
            info = InstanceInfo()
            if library.works("nvmlGpuInstanceGetInfo", ctypes.c_void_p(handle), ctypes.byref(info)):
                one = Instance(ctypes.c_void_p(handle), info, name, slices)
                one.parts = _parts(library, one.handle)
                found.append(one)
    _name_devices(library, device, found)
    return sorted(found, key=lambda one: one.start)


def part_profiles(library: Library, instance: Any) -> list[PartProfile]:
    """Return the compute instance profiles of a GPU instance. Raises Failure."""
    found = []
    for index in PART_PROFILES:
        info = PartProfile()
        if library.works(
            "nvmlGpuInstanceGetComputeInstanceProfileInfo",
            instance,
            UINT(index),
            UINT(0),
            ctypes.byref(info),
        ):
            found.append(info)
    return found


def _parts(library: Library, instance: Any) -> list[Part]:
    found = []
    for profile in part_profiles(library, instance):
        count, room = UINT(MOST), (ctypes.c_void_p * MOST)()
        asked = (instance, UINT(profile.id), ctypes.byref(room), ctypes.byref(count))
        if not library.works("nvmlGpuInstanceGetComputeInstances", *asked):
            continue
        for handle in room[: count.value]:
            info = PartInfo()
            if library.works(
                "nvmlComputeInstanceGetInfo_v2", ctypes.c_void_p(handle), ctypes.byref(info)
            ):
                found.append(Part(ctypes.c_void_p(handle), info, int(profile.slices)))
    return sorted(found, key=lambda part: part.id)


def _name_devices(library: Library, device: Any, found: list[Instance]) -> None:
    """Set the UUID of its MIG device in each compute instance."""
    parts = {(one.id, part.id): part for one in found for part in one.parts}
    for index in range(library.number("nvmlDeviceGetMaxMigDeviceCount", device) or 0):
        handle = ctypes.c_void_p()
        asked = (device, UINT(index), ctypes.byref(handle))
        if library.call("nvmlDeviceGetMigDeviceHandleByIndex", *asked) != SUCCESS:
            continue
        place = (
            library.number("nvmlDeviceGetGpuInstanceId", handle) or 0,
            library.number("nvmlDeviceGetComputeInstanceId", handle) or 0,
        )
        if place in parts:
            parts[place].uuid = library.text("nvmlDeviceGetUUID", handle)


def processes(library: Library, device: Any) -> list[int]:
    """Return the ids of processes that compute on the GPU or a part of it, possibly of another PID namespace. Raises Failure."""
    return sorted({pid for pid, _ in users(library, device)})


def users(library: Library, device: Any) -> set[tuple[int, int]]:
    """Return each process that computes on the GPU, with the id of its GPU instance or ``NO_INSTANCE``.

    Raises Failure, also where the driver does not tell: drivers before 510 have no such call.
    """

    class Process(ctypes.Structure):
        _fields_ = (("pid", UINT), ("memory", ULONG), ("instance", UINT), ("part", UINT))

    found = set()
    for kind in ("Compute", "Graphics"):
        count, room = UINT(1024), (Process * 1024)()
        name = f"nvmlDeviceGet{kind}RunningProcesses_v3"
        code = library.call(name, device, ctypes.byref(count), ctypes.byref(room))
        if code == INSUFFICIENT_SIZE or library.works(
            name, device, ctypes.byref(count), ctypes.byref(room)
        ):
            told = room[: min(count.value, 1024)]
            found |= {(int(one.pid), int(one.instance)) for one in told}
        elif kind == "Compute":
            raise Failure("this driver does not list the processes on a GPU")
    return found


def minors(at: str = MINORS) -> dict[str, int]:
    """Return minor numbers of the device nodes of all possible instances: "gpu0/gi1/access", "gpu0/gi1/ci0/access"."""
    pairs = (line.split() for line in lines_of(files.text(at)))
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}


def nodes(known: dict[str, int], gpu: int, instance: int, part: int) -> list[str]:
    """Return device nodes that a MIG device needs in addition to the GPU's own.

    Where the driver's list is not there, they are counted as it counts: 9 for each of 15 GPU instances, from 3 on.
    """
    first = 3 + 135 * gpu + 9 * instance
    at = f"gpu{gpu}/gi{instance}"
    whole = known.get(f"{at}/access", first)
    own = known.get(f"{at}/ci{part}/access", first + 1 + part)
    return [f"{NODES}{whole}", f"{NODES}{own}"]


def facts(library: Library, device: Any) -> list[Facts] | None:
    """Return the fact ``mig`` of a GPU. Raises Failure."""
    found = instances(library, device)
    minor = library.number("nvmlDeviceGetMinorNumber", device) or 0
    if found is None:
        return None
    known = minors() if found else {}
    return [
        {
            "profile": one.name,
            "profile_id": one.profile,
            "start": one.start,
            "size": one.size,
            "id": one.id,
            "parts": [
                {
                    "id": part.id,
                    "slices": part.slices,
                    "uuid": part.uuid,
                    "nodes": nodes(known, minor, one.id, part.id),
                }
                for part in one.parts
            ],
        }
        for one in found
    ]
