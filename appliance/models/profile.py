"""The profile: what a hardware class is, runs and must reach."""

from enum import StrEnum
from typing import Literal

from pydantic import Field

from appliance.models.base import Model
from appliance.models.result import Value


class Interconnect(StrEnum):
    """How the GPUs of one host reach each other."""

    NVSWITCH = "nvswitch"
    NVLINK_BRIDGE = "nvlink-bridge"
    PCIE = "pcie"


class GpuExpectation(Model):
    """GPUs of one host. Memory in GiB as marketed; PCIe width in lanes."""

    count: int = Field(ge=1, le=8)
    models: tuple[str, ...] = Field(min_length=1, description="Accepted NVML product names")
    memory_gib: int = Field(ge=1)
    interconnect: Interconnect
    pcie_generation: int = Field(ge=3, le=6)
    pcie_width: int = Field(default=16, ge=1, le=16)


class FabricExpectation(Model):
    """High-speed ports of one GPU host. Rate in Gb/s per port."""

    link_layer: Literal["InfiniBand", "Ethernet", "none"]
    ports: int = Field(ge=0, le=16)
    rate_gbps: int = Field(ge=0)


class HostExpectation(Model):
    """Processors, memory (GiB) and disks (GiB) of one GPU host; lower bounds."""

    sockets: int = Field(ge=1)
    cores: int = Field(ge=1)
    memory_gib: int = Field(ge=1)
    numa_nodes: int = Field(ge=1)
    system_disk_gib: int = Field(ge=0)
    scratch_disk_gib: int = Field(ge=0)


class Hardware(Model):
    """What a GPU host of this class is made of."""

    gpu: GpuExpectation
    fabric: FabricExpectation
    host: HostExpectation


class Software(Model):
    """Chosen releases. None = what the distribution carries."""

    operating_systems: tuple[str, ...] = Field(
        min_length=1, description='Supported systems, as "debian-12", "ubuntu-24.04", "rhel-9"'
    )
    driver_branch: str
    cuda: str
    slurm: str | None = None
    kubernetes: str | None = None
    containerd: str | None = None
    gpu_operator: str | None = None
    network_operator: str | None = None
    kai: str | None = None


class Limit(Model):
    """A bound a check judges against, with where the number comes from."""

    value: Value
    unit: str = ""
    source: str
    date: str = ""


class StageOptions(Model):
    """Choices per stage that belong to the hardware class rather than to a site."""

    sysctl: dict[str, str] = Field(default_factory=dict)
    hugepages_2m: int = Field(default=0, ge=0)
    slurm_memory_reserve_mib: int = Field(default=4096, ge=0)


class HostRange(Model):
    """How many GPU hosts one appliance has, both ends included."""

    minimum: int = Field(default=1, ge=1)
    maximum: int = Field(
        default=128, ge=1, description="One control host drives some hundred GPU hosts"
    )


class Profile(Model):
    """A hardware class: facts about it are expectations, software is a choice, limits carry sources."""

    version: Literal[1]
    name: str
    title: str
    gpu_hosts: HostRange = HostRange()
    hardware: Hardware
    software: Software
    stages: StageOptions = StageOptions()
    limits: dict[str, Limit] = Field(default_factory=dict)
