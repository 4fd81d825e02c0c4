"""MIG geometries of GPUs: placements, and which layouts are possible."""

from collections import Counter
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from appliance.config.tables import load
from appliance.models.base import Model
from appliance.stages.gpu.part import gpu_parts

Layout = Mapping[str, int]
"""Instances of one GPU: profile -> number."""
DISABLED = "disabled"
"""Layout of an undivided GPU."""


class MigProfile(Model):
    """A profile. ``id`` is NVML's; ``memory`` and ``starts`` count memory slices."""

    name: str
    id: int
    maximum: int = Field(ge=1)
    compute: int = Field(ge=1)
    memory: int = Field(ge=1)
    starts: tuple[int, ...] = Field(min_length=1)


class Placement(Model):
    """An instance and the first of its memory slices."""

    profile: str
    start: int
    size: int


class Geometry(Model):
    """Products with the same profiles and placements."""

    name: str
    compute: int
    memory: int
    source: str
    date: str
    profiles: tuple[MigProfile, ...]
    layouts: dict[str, dict[str, int]] = Field(min_length=1)

    @model_validator(mode="after")
    def _sound(self) -> Self:
        for profile in self.profiles:
            if any(start + profile.memory > self.memory for start in profile.starts):
                raise ValueError(f"{profile.name} reaches beyond the last memory slice")
        for name, layout in self.layouts.items():
            if why := self.refusal(layout):
                raise ValueError(f"layout {name}: {why}")
        return self

    def profile(self, name: str) -> MigProfile | None:
        """Return the profile called ``name``."""
        return next((profile for profile in self.profiles if profile.name == name), None)

    def place(self, layout: Layout) -> tuple[Placement, ...] | None:
        """Return a placement for each instance, the largest first, in order of creation; None if they do not fit."""
        if self._reckoned(layout):
            return None
        wanted = [p for p in self._by_size() for _ in range(layout.get(p.name, 0))]
        placed = self._fit(wanted, 0)
        return None if placed is None else tuple(placed)

    def refusal(self, layout: Layout) -> str:
        """Return why a layout is impossible on one GPU, in one line; "" if it is possible."""
        if why := self._reckoned(layout):
            return why
        return "" if self.place(layout) else "the instances do not fit on one GPU"

    def nearest(self, layout: Layout) -> dict[str, int]:
        """Return the layout without excess instances; the smallest are removed first; {} if none remain."""
        left = Counter({p.name: min(layout.get(p.name, 0), p.maximum) for p in self.profiles})
        for profile in reversed(self._by_size()):
            while left[profile.name] and self.refusal(left):
                left[profile.name] -= 1
        return dict(+left)

    def _by_size(self) -> list[MigProfile]:
        return sorted(self.profiles, key=lambda p: (-p.memory, -p.compute, p.name))

    def _reckoned(self, layout: Layout) -> str:
        """Return faults that counting detects."""
        unknown = [name for name in layout if self.profile(name) is None]
        if unknown:
            known = ", ".join(profile.name for profile in self.profiles)
            return f"there is no profile {unknown[0]}; there are {known}"
        if any(count < 0 for count in layout.values()) or not any(layout.values()):
            return "it names no instance"
        held = [(p, layout.get(p.name, 0)) for p in self.profiles]
        for profile, count in held:
            if count > profile.maximum:
                return f"{count} x {profile.name}, a GPU holds {profile.maximum}"
        for kind, slices in (("compute", self.compute), ("memory", self.memory)):
            if (needed := sum(getattr(p, kind) * n for p, n in held)) > slices:
                return f"it needs {needed} {kind} slices, a GPU has {slices}"
        return ""

    def _fit(self, wanted: list[MigProfile], taken: int) -> list[Placement] | None:
        """Try every start of the first instance, then the rest; ``taken`` is a bit mask of memory slices."""
        if not wanted:
            return []
        first, rest = wanted[0], wanted[1:]
        for start in first.starts:
            mask = ((1 << first.memory) - 1) << start
            if not taken & mask and (others := self._fit(rest, taken | mask)) is not None:
                return [Placement(profile=first.name, start=start, size=first.memory), *others]
        return None


def written(layout: Layout) -> str:
    """Return the site's notation: ``3g.40gb, 2 x 1g.10gb``; ``disabled`` for none."""
    parts = (f"{count} x {name}" if count > 1 else name for name, count in layout.items() if count)
    return ", ".join(parts) or DISABLED


class MigTable(Model):
    """All known geometries."""

    version: Literal[1]
    geometries: tuple[Geometry, ...]

    def of(self, model: str) -> Geometry | None:
        """Return the geometry of a product by its NVML name."""
        part = gpu_parts().find(model)
        return next((g for g in self.geometries if part and g.name == part.mig), None)


@cache
def mig_table() -> MigTable:
    """Return the geometries."""
    return load(Path(__file__).with_name("table.yml"), MigTable)
