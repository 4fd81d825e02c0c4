"""The profile: the hardware, software and limits of a hardware class."""

from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Annotated, Literal, Self

from pydantic import Field, StrictBool, StrictInt, StrictStr, model_validator

from appliance.models.base import Model
from appliance.models.result import Value
from appliance.models.text_types import (
    HOSTS,
    LINE,
    BiosSetting,
    Date,
    Few,
    Firmware,
    LabelValue,
    LayoutText,
    LimitName,
    Line,
    MirrorUrl,
    Named,
    Product,
    Release,
    SysctlKey,
    SysctlValue,
    System,
    Unit,
)


class Interconnect(StrEnum):
    """How the GPUs of one host are connected."""

    NVSWITCH = "nvswitch"
    NVLINK_BRIDGE = "nvlink-bridge"
    PCIE = "pcie"


GPUS = 16
"""Maximum per host: a DGX-2 has 16, all later boards 8 or fewer."""


class GpuExpectation(Model):
    """GPUs of one host. Memory in GiB as marketed; PCIe width in lanes."""

    count: int = Field(
        ge=1,
        le=GPUS,
        description="Maximum number of GPUs per host; a host with fewer declares that in the site, hosts[].gpus",
    )
    models: Few[Product] = Field(min_length=1, description="Accepted NVML product names")
    memory_gib: int = Field(ge=1, le=1024, description="Memory of one GPU, as marketed")
    interconnect: Interconnect = Field(description="How the GPUs of a host are connected")
    pcie_generation: int = Field(ge=3, le=6, description="Lower bound")
    pcie_width: int = Field(default=16, ge=1, le=16, description="Lanes, lower bound")


NO_GPUS = GpuExpectation.model_construct(
    count=0, models=(), memory_gib=0, interconnect=Interconnect.PCIE, pcie_generation=0
)


class FabricExpectation(Model):
    """High-speed ports of one GPU host. Rate in Gb/s per port."""

    link_layer: Literal["InfiniBand", "Ethernet", "none"] = Field(
        description="Link layer of the high-speed ports"
    )
    ports: int = Field(ge=0, le=16, description="Number of high-speed ports per host")
    rate_gbps: int = Field(ge=0, le=1600, description="Gb/s per port, lower bound")


NO_FABRIC = FabricExpectation.model_construct(link_layer="none", ports=0, rate_gbps=0)


class HostExpectation(Model):
    """Processors, memory (GiB) and disks (GiB) of one host; lower bounds."""

    sockets: int = Field(ge=1, le=64, description="Processors")
    cores: int = Field(ge=1, le=4096, description="Cores of all processors together")
    memory_gib: int = Field(ge=1, le=1_048_576, description="Main memory")
    numa_nodes: int = Field(ge=1, le=1024, description="NUMA nodes")
    system_disk_gib: int = Field(ge=0, le=1_048_576, description="System disk")
    scratch_disk_gib: int = Field(ge=0, le=1_048_576, description="Local disks for scratch, total")


class Hardware(Model):
    """The hardware of a host of this class."""

    gpu: GpuExpectation = Field(
        default=NO_GPUS, description="GPUs; default: a class of hosts without GPUs"
    )
    fabric: FabricExpectation = Field(
        default=NO_FABRIC, description="High-speed ports; default: no such ports"
    )
    host: HostExpectation = Field(description="Lower bounds for other hardware")


class Software(Model):
    """Chosen releases. None: the distribution's own."""

    operating_systems: Few[System] = Field(
        min_length=1, description='Supported systems, such as "debian-12", "ubuntu-24.04", "rhel-9"'
    )
    driver_branch: Release = Field(description="NVIDIA driver and fabric manager, such as 580")
    cuda: Release = Field(description="CUDA toolkit")
    slurm: Release | None = Field(default=None, description="Slurm")
    pyxis: Release | None = Field(default=None, description="Pyxis, for containers in Slurm jobs")
    enroot: Release | None = Field(
        default=None, description="enroot, the container runtime of Pyxis"
    )
    doca_ofed: Release | None = Field(default=None, description="DOCA-OFED instead of inbox RDMA")
    kubernetes: Release | None = Field(default=None, description="Kubernetes")
    containerd: Release | None = Field(default=None, description="containerd")
    gpu_operator: Release | None = Field(default=None, description="NVIDIA GPU Operator")
    device_plugin: Release | None = Field(
        default=None, description="NVIDIA device plugin without the GPU Operator"
    )
    network_operator: Release | None = Field(default=None, description="NVIDIA Network Operator")
    kai: Release | None = Field(default=None, description="KAI Scheduler")


NO_SOFTWARE = Software.model_construct(operating_systems=(), driver_branch="", cuda="")
OF_A_HOST = frozenset({"operating_systems", "driver_branch", "cuda", "doca_ofed"})
"""Releases that each class chooses for its own hosts; all others apply to the whole site."""


class Limit(Model):
    """A bound for a check, with its source."""

    value: Value = Field(description="The bound")
    unit: Unit = Field(default="", description="Its unit")
    source: Line = Field(description="Source of the number")
    date: Date = Field(default="", description="Date of the source")


class Tuning(Model):
    """Settings of processors, memory and PCIe of GPU hosts. What is not set is neither changed nor judged."""

    governor: Literal["performance", "powersave", "ondemand", "schedutil"] | None = Field(
        default=None, description="CPU frequency governor"
    )
    transparent_huge_pages: Literal["always", "madvise", "never"] | None = Field(
        default=None, description="Mode of transparent huge pages"
    )
    idle_latency_us: int | None = Field(
        default=None,
        ge=1,
        le=10_000,
        description="Longest exit latency of processors' idle states, in microseconds",
    )
    acs_disabled: bool = Field(
        default=False,
        description="Disable PCIe ACS on the bridges above GPUs and adapters, so that they reach each other directly",
    )
    read_request: Literal[128, 256, 512, 1024, 2048, 4096] | None = Field(
        default=None, description="PCIe read requests of NVIDIA adapters, in bytes"
    )
    iommu_passthrough: bool = Field(
        default=False, description="Checked: the IOMMU does not translate GPUs and adapters"
    )
    relaxed_ordering: bool = Field(
        default=False, description="Checked: GPUs and adapters may relax the order of PCIe writes"
    )
    gpu_direct: bool = Field(
        default=False, description="Checked: adapters can access GPU memory directly"
    )
    gdrcopy: bool = Field(default=False, description="Checked: the module of GDRCopy is loaded")


class StageOptions(Model):
    """Choices per stage that belong to the hardware class rather than to a site."""

    sysctl: Named[SysctlKey, SysctlValue] = Field(
        default_factory=dict, description="Kernel parameters to set"
    )
    hugepages_2m: int = Field(
        default=0, ge=0, le=16_777_216, description="Pages of 2 MiB reserved at boot"
    )
    tuning: Tuning = Field(
        default=Tuning.model_construct(),
        description="Processors, memory and PCIe of GPU hosts; default: as they are",
    )
    mig: LayoutText | None = Field(
        default=None, description="MIG layout of all GPUs; a site can override it"
    )
    slurm_memory_reserve_mib: int = Field(
        default=4096, ge=0, le=1_048_576, description="Memory reserved from jobs, MiB per host"
    )


BIOS_NUMBER = 2**31 - 1
BiosValue = (
    StrictBool
    | Annotated[StrictInt, Field(ge=-BIOS_NUMBER, le=BIOS_NUMBER)]
    | Annotated[StrictStr, Field(pattern=LINE, max_length=200)]
)


class ServerModel(Model):
    """Expected BIOS settings and firmware of one server model; names are those of its BMC."""

    model: Line = Field(
        min_length=1,
        description="Model as shown by appliance discover; * matches any letters, ? a single one",
    )
    bios: Named[BiosSetting, BiosValue] = Field(
        default_factory=dict, description="BIOS settings, by the names in appliance bios show"
    )
    firmware: Named[Firmware, Firmware] = Field(
        default_factory=dict, description="Minimum version by component"
    )
    images: Named[Firmware, MirrorUrl] = Field(
        default_factory=dict,
        description="Where the BMC fetches the image with that version, by component of firmware",
    )

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if unknown := [name for name in self.images if name not in self.firmware]:
            raise ValueError(f"images names {unknown[0]}, but firmware gives it no version")
        if not self.bios and not self.firmware:
            raise ValueError("it sets neither bios nor firmware")
        return self


class HostRange(Model):
    """The number of GPU hosts of one appliance, inclusive."""

    minimum: int = Field(default=1, ge=1, le=HOSTS, description="Minimum number of GPU hosts")
    maximum: int = Field(
        default=128,
        ge=1,
        le=HOSTS,
        description="Maximum; one control host manages some hundred GPU hosts",
    )


class Profile(Model):
    """A hardware class: hardware is expected, software is a choice, limits have sources."""

    version: Literal[1] = Field(description="Version of this file's schema")
    name: LabelValue = Field(description="Name of the hardware class")
    title: Line = Field(min_length=1, description="One line for people")
    gpu_hosts: HostRange = Field(
        default=HostRange.model_construct(), description="Size of an appliance"
    )
    hardware: Hardware = Field(description="Expected hardware, checked on the hosts")
    software: Software = Field(
        default=NO_SOFTWARE,
        description="Software releases, which must be compatible; optional for a class without GPUs",
    )
    stages: StageOptions = Field(
        default=StageOptions.model_construct(), description="Choices per stage"
    )
    servers: Few[ServerModel] = Field(
        default=(), description="BIOS settings and firmware by server model; the first match counts"
    )
    limits: Named[LimitName, Limit] = Field(default_factory=dict, description="Limits by check id")

    @property
    def has_gpus(self) -> bool:
        """Whether it describes GPU hosts."""
        return bool(self.hardware.gpu.count)

    def beside(self, site: "Profile") -> "Profile":
        """This class on a site whose own profile is ``site``: releases of the whole site come from that profile."""
        others = {
            name: getattr(site.software, name)
            for name in Software.model_fields
            if name not in OF_A_HOST or "software" not in self.model_fields_set
        }
        software = self.software.model_copy(update=others)
        return self.model_copy(update={"software": software})

    def server(self, model: str) -> ServerModel | None:
        """The expectations for servers of this model; None if the profile has none."""
        return next((s for s in self.servers if fnmatchcase(model, s.model)), None)
