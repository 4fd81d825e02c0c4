"""The profile: what a hardware class is, runs and must reach."""

from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Annotated, Literal, Self

from pydantic import Field, StrictBool, StrictInt, StrictStr, model_validator

from appliance.models.base import Model
from appliance.models.result import Value
from appliance.models.texts import (
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
    Named,
    Product,
    Release,
    SysctlKey,
    SysctlValue,
    System,
    Unit,
)


class Interconnect(StrEnum):
    """How the GPUs of one host reach each other."""

    NVSWITCH = "nvswitch"
    NVLINK_BRIDGE = "nvlink-bridge"
    PCIE = "pcie"


GPUS = 16
"""Of one host at most: a DGX-2 has 16, all later boards 8 or fewer."""


class GpuExpectation(Model):
    """GPUs of one host. Memory in GiB as marketed; PCIe width in lanes."""

    count: int = Field(
        ge=1,
        le=GPUS,
        description="GPUs of one host at most; a host that has fewer says so in the site, hosts[].gpus",
    )
    models: Few[Product] = Field(min_length=1, description="Accepted NVML product names")
    memory_gib: int = Field(ge=1, le=1024, description="Of one GPU, as marketed")
    interconnect: Interconnect = Field(description="How the GPUs of a host reach each other")
    pcie_generation: int = Field(ge=3, le=6, description="Lower bound")
    pcie_width: int = Field(default=16, ge=1, le=16, description="Lanes, lower bound")


class FabricExpectation(Model):
    """High-speed ports of one GPU host. Rate in Gb/s per port."""

    link_layer: Literal["InfiniBand", "Ethernet", "none"] = Field(
        description="Of the high-speed ports"
    )
    ports: int = Field(ge=0, le=16, description="High-speed ports of one host")
    rate_gbps: int = Field(ge=0, le=1600, description="Gb/s per port, lower bound")


class HostExpectation(Model):
    """Processors, memory (GiB) and disks (GiB) of one GPU host; lower bounds."""

    sockets: int = Field(ge=1, le=64, description="Processors")
    cores: int = Field(ge=1, le=4096, description="Cores of all processors together")
    memory_gib: int = Field(ge=1, le=1_048_576, description="Main memory")
    numa_nodes: int = Field(ge=1, le=1024, description="NUMA nodes")
    system_disk_gib: int = Field(ge=0, le=1_048_576, description="Disk the system is on")
    scratch_disk_gib: int = Field(
        ge=0, le=1_048_576, description="Local disks for scratch together"
    )


class Hardware(Model):
    """What a GPU host of this class is made of."""

    gpu: GpuExpectation = Field(description="GPUs")
    fabric: FabricExpectation = Field(description="High-speed ports")
    host: HostExpectation = Field(description="Lower bounds for the rest")


class Software(Model):
    """Chosen releases. None = what the distribution carries."""

    operating_systems: Few[System] = Field(
        min_length=1, description='Supported systems, as "debian-12", "ubuntu-24.04", "rhel-9"'
    )
    driver_branch: Release = Field(description="NVIDIA driver and fabric manager, as 580")
    cuda: Release = Field(description="CUDA toolkit")
    slurm: Release | None = Field(default=None, description="Slurm")
    pyxis: Release | None = Field(default=None, description="Pyxis, containers in Slurm jobs")
    enroot: Release | None = Field(default=None, description="enroot, what Pyxis runs them with")
    doca_ofed: Release | None = Field(default=None, description="DOCA-OFED in place of inbox RDMA")
    kubernetes: Release | None = Field(default=None, description="Kubernetes")
    containerd: Release | None = Field(default=None, description="containerd")
    gpu_operator: Release | None = Field(default=None, description="NVIDIA GPU Operator")
    network_operator: Release | None = Field(default=None, description="NVIDIA Network Operator")
    kai: Release | None = Field(default=None, description="KAI Scheduler")


class Limit(Model):
    """A bound a check judges against, with where the number comes from."""

    value: Value = Field(description="The bound")
    unit: Unit = Field(default="", description="Its unit")
    source: Line = Field(description="Where the number comes from")
    date: Date = Field(default="", description="Of the source")


class StageOptions(Model):
    """Choices per stage that belong to the hardware class rather than to a site."""

    sysctl: Named[SysctlKey, SysctlValue] = Field(
        default_factory=dict, description="Kernel parameters to add"
    )
    hugepages_2m: int = Field(
        default=0, ge=0, le=16_777_216, description="Pages of 2 MiB reserved at boot"
    )
    mig: LayoutText | None = Field(
        default=None, description="MIG layout of all GPUs; a site may say otherwise"
    )
    slurm_memory_reserve_mib: int = Field(
        default=4096, ge=0, le=1_048_576, description="Memory kept from jobs, MiB per host"
    )


BIOS_NUMBER = 2**31 - 1
BiosValue = (
    StrictBool
    | Annotated[StrictInt, Field(ge=-BIOS_NUMBER, le=BIOS_NUMBER)]
    | Annotated[StrictStr, Field(pattern=LINE, max_length=200)]
)


class ServerModel(Model):
    """What BIOS and firmware of one model of servers shall be; names are those of its controller."""

    model: Line = Field(
        min_length=1,
        description="Model as appliance discover shows it; * stands for any letters, ? for one",
    )
    bios: Named[BiosSetting, BiosValue] = Field(
        default_factory=dict, description="BIOS settings, as appliance bios show names them"
    )
    firmware: Named[Firmware, Firmware] = Field(
        default_factory=dict, description="The oldest version of a component that will do"
    )

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not self.bios and not self.firmware:
            raise ValueError("it names neither settings nor firmware")
        return self


class HostRange(Model):
    """How many GPU hosts one appliance has, both ends included."""

    minimum: int = Field(default=1, ge=1, le=HOSTS, description="GPU hosts at least")
    maximum: int = Field(
        default=128, ge=1, le=HOSTS, description="One control host drives some hundred GPU hosts"
    )


class Profile(Model):
    """A hardware class: facts about it are expectations, software is a choice, limits carry sources."""

    version: Literal[1] = Field(description="Of this file's schema")
    name: LabelValue = Field(description="Name of the hardware class")
    title: Line = Field(min_length=1, description="One line for people")
    gpu_hosts: HostRange = Field(
        default=HostRange.model_construct(), description="Size of an appliance"
    )
    hardware: Hardware = Field(description="What a GPU host is: checked")
    software: Software = Field(description="What runs: chosen, must go together")
    stages: StageOptions = Field(
        default=StageOptions.model_construct(), description="Choices per stage"
    )
    servers: Few[ServerModel] = Field(
        default=(), description="BIOS settings and firmware by model of server; the first that fits"
    )
    limits: Named[LimitName, Limit] = Field(
        default_factory=dict, description="What must be reached, by check id"
    )

    def server(self, model: str) -> ServerModel | None:
        """What is wanted of servers of this model; None where the profile names none."""
        return next((s for s in self.servers if fnmatchcase(model, s.model)), None)
