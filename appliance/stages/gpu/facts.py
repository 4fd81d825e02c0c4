"""Facts of a host's GPUs from NVML and the driver's messages."""

from pydantic import Field

from appliance.models.base import Model
from appliance.models.fact_types import (
    BusId,
    Count,
    DeviceFile,
    GpuUuid,
    Line,
    MigProfile,
    Number,
    Real,
)


class MigPart(Model):
    """A compute instance: its number, compute slices, the UUID programs name it by, and its device nodes."""

    id: Count
    slices: Count
    uuid: GpuUuid = ""
    nodes: tuple[DeviceFile, ...] = ()


class MigInstance(Model):
    """A GPU instance (MIG): ``size`` memory slices from ``start``; ``profile_id`` as nvidia-smi shows it."""

    profile: MigProfile
    profile_id: Number
    start: Count
    size: Count
    id: Count
    parts: tuple[MigPart, ...] = ()


class Gpu(Model):
    """One GPU through NVML. Memory in bytes, power in W, temperature in C; None = not supported."""

    index: Count
    uuid: GpuUuid
    name: Line
    serial: Line = ""
    vbios: Line = ""
    bus_id: BusId
    minor: Count | None = Field(default=None, description="Of its device, /dev/nvidia0")
    memory: Count
    memory_used: Count | None = Field(
        default=None, description="With what the driver itself has reserved"
    )
    pcie_generation: Number | None = None
    pcie_width: Number | None = None
    pcie_max_generation: Number | None = None
    pcie_max_width: Number | None = None
    pcie_gpu_generation: Number | None = Field(
        default=None, description="What the GPU itself can, whatever its slot can"
    )
    pcie_replays: Number | None = None
    numa_node: Number | None = None
    pci_path: tuple[BusId, ...] = Field(
        default=(), description="Bridges from the root of the bus to it: how near an adapter is"
    )
    temperature: Number | None = None
    temperature_slowdown: Number | None = None
    temperature_margin: Number | None = Field(
        default=None, description="Degrees left until the GPU slows down; newer drivers"
    )
    power_limit: Real | None = None
    power_default: Real | None = None
    power_least: Real | None = Field(default=None, description="Least limit that may be set")
    power_most: Real | None = None
    power: Real | None = Field(default=None, description="Drawn now")
    sm_clock: Number | None = Field(default=None, description="MHz")
    memory_clock: Number | None = None
    utilization: Number | None = Field(default=None, description="%, of the last moment")
    ecc_enabled: bool | None = None
    ecc_uncorrected: Number | None = None
    ecc_uncorrected_aggregate: Number | None = None
    sram_uncorrected: Number | None = Field(default=None, description="Over the GPU's life")
    sram_exceeded: bool | None = None
    remap_pending: bool | None = None
    remap_failed: bool | None = None
    remapped_rows: Number | None = Field(default=None, description="For uncorrectable errors")
    mig_enabled: bool | None = None
    mig_pending: bool | None = Field(default=None, description="Mode after the GPU's next reset")
    mig: tuple[MigInstance, ...] | None = Field(
        default=None, description="What it is divided into; None: not read"
    )
    nvlinks_active: Number | None = None
    nvlink_speed: Number | None = Field(default=None, description="MB/s of each active link")
    persistence: bool | None = None
    clock_event_reasons: Number | None = None
    processes: Number | None = None
    error: Line = ""


class Gpus(Model):
    """The driver's view of all GPUs."""

    driver: Line
    nvml: Line
    cuda: Line = ""
    devices: tuple[Gpu, ...] = ()


class Xid(Model):
    """An Xid message of the NVIDIA driver. ``age``: s before the facts were taken, None if unknown."""

    code: Number
    bus_id: BusId = ""
    age: Real | None = None
    text: Line = ""
    unit: Line = Field(
        default="", description="Of an NVLink 5 message: the part of the GPU it names"
    )
    severity: Line = Field(
        default="", description="Severity in an NVLink 5 message: Fatal or Nonfatal"
    )
    link: Line = Field(default="", description="The NVLink that message names")
    omitted: Number = Field(default=0, description="Earlier ones of this code and GPU, left out")
