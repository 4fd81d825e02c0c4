"""The GPUs that a rack can simulate, in sysfs and NVML: rows of gpu_parts.yml."""

from functools import cache
from typing import Annotated

from pydantic import BeforeValidator

from appliance.errors import ConfigError
from appliance.models.base import Model
from appliance.stages.gpu.part import GpuPart, gpu_parts

PciId = Annotated[int, BeforeValidator(lambda text: int(text, 16))]


class GpuModel(Model):
    """One product: memory in MiB, power in W, clocks in MHz, temperatures in C, one link in MB/s.

    ``architecture`` (7 Ampere, 9 Hopper) and ``nvlink_version`` (5: 3.1, 6: 4.0) are NVML's numbers. ``multiprocessors``:
    of the largest MIG instance. Names, ids, memory, power, clocks and links are the products' own; board numbers, VBIOS and
    subsystems merely have the right shape.
    """

    key: str
    name: str
    is_card: bool
    pci_device: PciId
    pci_subsystem: PciId
    memory: int
    reserved: int
    power: int
    power_least: int
    pcie_generation: int
    nvlinks: int
    nvlink_version: int
    nvlink_speed: int
    architecture: int
    compute: tuple[int, int]
    cores: int
    multiprocessors: int
    memory_clock: int
    sm_clock: int
    shutdown: int
    slowdown: int
    too_hot: int
    vbios: str
    board: str


@cache
def parts() -> tuple[GpuModel, ...]:
    """All of them, in the order of the table."""
    return tuple(_model(one) for one in gpu_parts().parts if one.rack)


def part(key: str) -> GpuModel:
    """The part called ``key``. Raises ConfigError."""
    for model in parts():
        if model.key == key:
            return model
    raise ConfigError(f'no GPU is called "{key}"', "one of " + ", ".join(m.key for m in parts()))


def _model(one: GpuPart) -> GpuModel:
    links = {"nvlinks": one.nvlinks, "nvlink_speed": one.nvlink_speed}
    return GpuModel.model_validate(
        {"name": one.name, "power": one.tdp, **links, **(one.rack or {})}
    )
