"""A GPU product by its data sheet."""

from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from appliance.config.tables import load
from appliance.models.base import Model
from appliance.models.profile import Interconnect

MAKER = "NVIDIA "


class Peak(Model):
    """Dense BF16 peak in TFLOPS; ``name``: how training runs call the product."""

    name: str
    peak: float = Field(gt=0)
    source: str


class Rates(Model):
    """Peak rates of one GPU: dense matrix products in TFLOPS, memory in GB/s; None: not published.

    ``half``: FP16, and BF16 where it has ``tf32``. ``clock``: MHz that the matrix rates are published at, where the product
    goes up to ``highest``; None: they are published at its highest.
    """

    fp64: float = Field(gt=0)
    tf32: float | None = Field(default=None, gt=0)
    half: float = Field(gt=0)
    memory: float = Field(gt=0)
    clock: int | None = Field(default=None, gt=0)
    highest: int | None = Field(default=None, gt=0)
    source: str


class Floor(Model):
    """A published result of a benchmark; ``interconnect``: the only one for which it is valid."""

    check: str
    interconnect: Interconnect | None = None
    value: float = Field(gt=0)
    unit: str
    source: str
    date: str


class GpuPart(Model):
    """One product by its NVML name. TDP in W, speed of one NVLink in MB/s; None: not an SXM board.

    ``mig``: the name of its geometry in the table of stage mig; "": its placements are not known. ``bf16``, ``rates``
    and ``floors`` are for benchmarks, ``shown`` for docs/support.md. ``rack``: what lets a virtual rack simulate it, as the lab
    reads it; None: no rack has it.
    """

    name: str
    tdp: int = Field(gt=0)
    mig: str = ""
    nvlinks: int | None = None
    nvlink_speed: int | None = None
    source: str
    date: str
    bf16: Peak | None = None
    rates: Rates | None = None
    floors: tuple[Floor, ...] = ()
    shown: str = "unit"
    rack: dict[str, Any] | None = None

    @cached_property
    def cite(self) -> str:
        """Return the source of its figures."""
        return f"{self.source}, {self.date}"

    @property
    def names(self) -> tuple[str, ...]:
        """Return its names: of NVML with and without the vendor, and of training runs."""
        short = (self.bf16.name,) if self.bf16 else ()
        return (self.name, self.name.removeprefix(MAKER), *short)


class GpuParts(Model):
    """All known products."""

    version: Literal[1]
    parts: tuple[GpuPart, ...]

    def find(self, name: str) -> GpuPart | None:
        """Return the product called ``name``."""
        return next((part for part in self.parts if part.name == name), None)


@lru_cache(256)
def part_named(name: str) -> GpuPart | None:
    """Return the product called ``name``, cached: most GPUs of a site are of one product."""
    return gpu_parts().find(name)


@cache
def gpu_parts() -> GpuParts:
    """Return the data sheets of GPUs."""
    return load(Path(__file__).with_name("gpu_parts.yml"), GpuParts)
