"""What NVML and the driver's messages tell of a host's GPUs."""

from pydantic import Field

from appliance.models.base import Model


class MigPart(Model):
    """A compute instance: its number, compute slices, the UUID programs name it by, and its device nodes."""

    id: int
    slices: int
    uuid: str = ""
    nodes: tuple[str, ...] = ()


class MigInstance(Model):
    """A GPU instance (MIG): ``size`` memory slices from ``start``; ``profile_id`` as nvidia-smi shows it."""

    profile: str
    profile_id: int
    start: int
    size: int
    id: int
    parts: tuple[MigPart, ...] = ()


class Gpu(Model):
    """One GPU through NVML. Memory in bytes, power in W, temperature in C; None = not supported."""

    index: int
    uuid: str
    name: str
    serial: str = ""
    vbios: str = ""
    bus_id: str
    minor: int | None = Field(default=None, description="Of its device, /dev/nvidia0")
    memory: int
    memory_used: int | None = None
    pcie_generation: int | None = None
    pcie_width: int | None = None
    pcie_max_generation: int | None = None
    pcie_max_width: int | None = None
    pcie_gpu_generation: int | None = Field(
        default=None, description="What the GPU itself can, whatever its slot can"
    )
    pcie_replays: int | None = None
    numa_node: int | None = None
    pci_path: tuple[str, ...] = Field(
        default=(), description="Bridges from the root of the bus to it: how near an adapter is"
    )
    temperature: int | None = None
    temperature_shutdown: int | None = None
    temperature_slowdown: int | None = None
    temperature_maximum: int | None = None
    temperature_margin: int | None = Field(
        default=None, description="Degrees left until the GPU slows down; newer drivers"
    )
    power_limit: float | None = None
    power_default: float | None = None
    power_least: float | None = Field(default=None, description="Least limit that may be set")
    power_most: float | None = None
    power: float | None = Field(default=None, description="Drawn now")
    sm_clock: int | None = Field(default=None, description="MHz")
    sm_clock_most: int | None = None
    memory_clock: int | None = None
    memory_clock_most: int | None = None
    utilization: int | None = Field(default=None, description="%, of the last moment")
    ecc_enabled: bool | None = None
    ecc_corrected: int | None = None
    ecc_corrected_aggregate: int | None = None
    ecc_uncorrected: int | None = None
    ecc_uncorrected_aggregate: int | None = None
    sram_uncorrected: int | None = Field(default=None, description="Over the GPU's life")
    sram_exceeded: bool | None = None
    remap_pending: bool | None = None
    remap_failed: bool | None = None
    remapped_rows: int | None = Field(default=None, description="For uncorrectable errors")
    remapped_corrected: int | None = Field(default=None, description="For correctable ones")
    mig_enabled: bool | None = None
    mig_pending: bool | None = Field(default=None, description="Mode after the GPU's next reset")
    mig: tuple[MigInstance, ...] | None = Field(
        default=None, description="What it is divided into; None: not read"
    )
    nvlinks_active: int | None = None
    nvlink_speed: int | None = Field(default=None, description="MB/s of each active link")
    persistence: bool | None = None
    clock_event_reasons: int | None = None
    processes: int | None = None
    error: str = ""


class Gpus(Model):
    """The driver's view of all GPUs."""

    driver: str
    nvml: str
    cuda: str = ""
    devices: tuple[Gpu, ...] = ()


class Xid(Model):
    """An Xid message of the NVIDIA driver. ``age``: s before the facts were taken, None if unknown."""

    code: int
    bus_id: str = ""
    age: float | None = None
    text: str = ""
    omitted: int = Field(default=0, description="Earlier ones of this code and GPU, left out")
