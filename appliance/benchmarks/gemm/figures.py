"""The output of multiply.py on a host: complete and typed, or refused."""

from typing import Literal

from pydantic import Field

from appliance.benchmarks.reading import Foreign, Rate, Unread, document

LEADING = ("bf16", "fp16", "fp32", "fp64")
"""Types that a device is judged by, the first that it has; others are compared with its equals."""


class Product(Foreign):
    """A square product. ``wrong``: rows of the checked ones that were."""

    dtype: Literal["fp64", "fp32", "tf32", "fp16", "bf16"]
    size: int = Field(ge=2, le=1 << 20)
    tflops: Rate
    wrong: int = Field(ge=0)


class Stream(Foreign):
    """A way through memory, GB/s read and written; buffers of ``octets`` each."""

    what: Literal["copy", "triad"]
    octets: int = Field(ge=1)
    gbps: Rate
    wrong: int = Field(ge=0)


class Device(Foreign):
    """A GPU, or all processors of a host. ``error``: why nothing was measured of it."""

    index: int = Field(ge=0, le=255)
    kind: Literal["gpu", "processors"]
    uuid: str = Field(default="", max_length=80)
    name: str = Field(default="", max_length=120)
    products: tuple[Product, ...] = Field(default=(), max_length=64)
    streams: tuple[Stream, ...] = Field(default=(), max_length=8)
    error: str = Field(default="", max_length=400)

    @property
    def part(self) -> str:
        """The device's name on its host."""
        return f"GPU {self.index}" if self.kind == "gpu" else "processors"

    @property
    def best(self) -> dict[str, Product]:
        """The fastest product of each type."""
        found: dict[str, Product] = {}
        for one in self.products:
            if one.dtype not in found or one.tflops > found[one.dtype].tflops:
                found[one.dtype] = one
        return found

    @property
    def leading(self) -> str:
        """The type that it is judged by."""
        return next(name for name in LEADING if name in self.best)

    @property
    def way(self) -> Stream:
        """The fastest way through its memory."""
        return max(self.streams, key=lambda one: one.gbps)


class Sweep(Foreign):
    """All devices of a host. ``torch``: PyTorch's version, "" if it cannot be loaded, with the reason in ``why``."""

    torch: str = Field(max_length=80)
    why: str = Field(default="", max_length=400)
    devices: tuple[Device, ...] = Field(default=(), max_length=64)


def read(text: str) -> Sweep:
    """Raises Unread if a value is missing or impossible, or if a device occurs twice."""
    found = document(Sweep, text)
    if len({(one.kind, one.index) for one in found.devices}) < len(found.devices):
        raise Unread("it lists one device twice")
    for one in found.devices:
        if one.error:
            continue
        if not set(one.best) & set(LEADING) or {s.what for s in one.streams} != {"copy", "triad"}:
            raise Unread(f"figures of {one.part} are missing")
        if not all(p.tflops for p in one.products) or not all(s.gbps for s in one.streams):
            raise Unread(f"{one.part} has measured nothing")
    return found
