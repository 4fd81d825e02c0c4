"""What a GPU product is by its data sheet."""

from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from appliance.config.tables import load
from appliance.models.base import Model


class GpuPart(Model):
    """One product by its NVML name. TDP in W, speed of one NVLink in MB/s; None: not an SXM board.

    ``mig``: the name of its geometry in the table of stage mig; "": its placements are not known. ``rack``: what lets
    a virtual rack simulate it, as the lab reads it; None: no rack has it.
    """

    name: str
    tdp: int = Field(gt=0)
    mig: str = ""
    nvlinks: int | None = None
    nvlink_speed: int | None = None
    source: str
    date: str
    rack: dict[str, Any] | None = None

    @property
    def cite(self) -> str:
        """Where its figures come from."""
        return f"{self.source}, {self.date}"


class GpuParts(Model):
    """All products the program knows."""

    version: Literal[1]
    parts: tuple[GpuPart, ...]

    def find(self, name: str) -> GpuPart | None:
        """The product called ``name``."""
        return next((part for part in self.parts if part.name == name), None)


@cache
def gpu_parts() -> GpuParts:
    """Data sheets of GPUs."""
    return load(Path(__file__).with_name("gpu_parts.yml"), GpuParts)
