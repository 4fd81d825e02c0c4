"""Reads and changes the MIG layout of one GPU through NVML."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

from appliance.mig.layout import Layout, Refused, Spot, as_found
from appliance.probe import mig
from appliance.probe.nvml import SUCCESS, UINT, Failure

if TYPE_CHECKING:
    from typing import Any

    from appliance.probe.nvml import Library

NOT_PERMITTED = "only root can read MIG instances"


class Gpu:
    """A device by its number. All methods raise ``Failure`` if NVML refuses."""

    def __init__(self, library: Library, index: int) -> None:
        self.library = library
        self.index = index
        self.device = library.handle(index)
        self.uuid = library.text("nvmlDeviceGetUUID", self.device)
        self.name = library.text("nvmlDeviceGetName", self.device)
        self.minor = library.number("nvmlDeviceGetMinorNumber", self.device) or 0

    def mode(self) -> tuple[bool, bool]:
        """Return MIG mode now, and after the next reset. Raises Refused for a GPU without MIG."""
        found = mig.mode(self.library, self.device)
        if found is None:
            raise Refused(f"GPU {self.index} ({self.name}) cannot be divided")
        return found

    def instances(self) -> list[mig.Instance]:
        """Return its instances; none while MIG mode is off. Raises Refused if they may not be read."""
        if not self.mode()[0]:
            return []
        found = mig.instances(self.library, self.device)
        if found is None:
            raise Refused(NOT_PERMITTED)
        return found

    def layout(self) -> Layout:
        """Return its current layout."""
        return as_found(self.mode()[0], self.instances())

    def profiles(self) -> dict[int, tuple[str, int]]:
        """Return the available instance sizes: id -> name, compute slices."""
        return mig.profiles(self.library, self.device)

    def places(self, profile: int) -> list[tuple[int, int]]:
        """Return the possible placements of a profile; known in MIG mode only."""
        return mig.places(self.library, self.device, profile)

    def processes(self) -> list[int]:
        """Return the processes that use it."""
        return mig.processes(self.library, self.device)

    def used(self) -> set[int]:
        """Return ids of the instances in use; ``NO_INSTANCE`` among them: it may be any."""
        return {instance for _, instance in mig.users(self.library, self.device)}

    def ask_mode(self, on: bool) -> bool:
        """Request MIG mode on or off; return False if it waits for a reset because the GPU is in use."""
        status = ctypes.c_int(SUCCESS)
        self._do("nvmlDeviceSetMigMode", self.device, UINT(on), ctypes.byref(status))
        return self.mode() == (on, on)

    def make(self, spot: Spot) -> None:
        """Create a GPU instance with its compute instances at its placement; if one part fails, remove all of it."""
        handle = ctypes.c_void_p()
        place = mig.Place(spot.start, spot.size)
        create = "nvmlDeviceCreateGpuInstanceWithPlacement"
        self._do(
            create, self.device, UINT(spot.id), ctypes.byref(place), ctypes.byref(handle), what=spot
        )
        made: list[ctypes.c_void_p] = []
        try:
            self._fill(handle, spot, made)
        except Failure:
            # Report the first failure.
            for part in made:
                self.library.call("nvmlComputeInstanceDestroy", part)
            self.library.call("nvmlGpuInstanceDestroy", handle)
            raise

    def _fill(self, instance: ctypes.c_void_p, spot: Spot, made: list[ctypes.c_void_p]) -> None:
        sizes = {p.slices: p.id for p in mig.part_profiles(self.library, instance)}
        for slices in spot.parts if spot.parts is not None else (max(sizes, default=0),):
            if slices not in sizes:
                raise Failure(f"{spot} has no compute instance of {slices} slices")
            part = ctypes.c_void_p()
            create = "nvmlGpuInstanceCreateComputeInstance"
            self._do(create, instance, UINT(sizes[slices]), ctypes.byref(part), what=spot)
            made.append(part)

    def remove(self, instance: mig.Instance) -> None:
        """Remove a GPU instance with its compute instances."""
        what = f"{instance.name} at {instance.start}"
        for part in instance.parts:
            self._do("nvmlComputeInstanceDestroy", part.handle, what=what)
        self._do("nvmlGpuInstanceDestroy", instance.handle, what=what)

    def _do(self, name: str, *arguments: Any, what: object = "") -> None:
        code = self.library.call(name, *arguments)
        if code != SUCCESS:
            of = f" ({what})" if what else ""
            raise Failure(f"{name[4:]}{of}: {self.library.words(code)}")
