"""The hardware a rack pretends to have: eight A100-SXM4-80GB and eight HDR ports per GPU host."""

import hashlib
from dataclasses import dataclass

GPUS_PER_HOST = 8
PORTS_PER_GPU_HOST = 8
PORT_RATE_GBPS = 200


@dataclass(frozen=True)
class GpuModel:
    """One product. Memory in bytes, power in milliwatts, clocks in MHz, ids as PCI writes them."""

    name: str
    pci_device_id: int
    pci_subsystem_id: int
    memory_bytes: int
    memory_idle: int
    memory_reserved: int
    power_limit_mw: int
    pcie_generation: int
    nvlinks: int
    nvlink_version: int
    memory_clock: int
    sm_clock_max: int
    vbios: str
    board_part: str
    driver: str
    cuda: int


GPU_MODEL = GpuModel(
    name="NVIDIA A100-SXM4-80GB",
    pci_device_id=0x20B210DE,
    pci_subsystem_id=0x147F10DE,
    memory_bytes=81920 << 20,
    memory_idle=4 << 20,
    memory_reserved=638 << 20,
    power_limit_mw=400_000,
    pcie_generation=4,
    nvlinks=12,
    nvlink_version=5,
    memory_clock=1593,
    sm_clock_max=1410,
    vbios="92.00.45.00.03",
    board_part="692-2G506-0212-002",
    driver="535.261.03",
    cuda=12020,
)


@dataclass(frozen=True)
class PciAddress:
    """Where a device sits, behind a switch port of its own, and the NUMA node it belongs to."""

    bus: int
    numa_node: int

    @property
    def address(self) -> str:
        return f"0000:{self.bus:02x}:00.0"

    @property
    def parent(self) -> str:
        return f"0000:{self.bus - 1:02x}:00.0"

    @property
    def root(self) -> str:
        return f"pci0000:{self.bus & 0xF0:02x}"


# Two GPUs and two ports share a PCIe switch, four switches, as on a DGX A100.
GPU_BUSES = (0x07, 0x0F, 0x47, 0x4E, 0x87, 0x90, 0xB7, 0xBD)
HCA_BUSES = (0x0C, 0x12, 0x4B, 0x54, 0x8D, 0x94, 0xBA, 0xCC)


def gpu_pci(index: int) -> PciAddress:
    """Where GPU ``index`` sits."""
    return PciAddress(GPU_BUSES[index], index // 4)


def hca_pci(index: int) -> PciAddress:
    """Where the HCA ``mlx5_<index>`` sits."""
    return PciAddress(HCA_BUSES[index], index // 4)


def uuid(host: str, index: int) -> str:
    """A GPU's UUID, the same at every start of the same host."""
    text = hashlib.sha256(f"{host}/gpu{index}".encode()).hexdigest()
    return f"GPU-{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:32]}"


def serial(host: str, index: int) -> str:
    """A GPU's serial number: thirteen digits."""
    number = int(hashlib.sha256(f"{host}/serial{index}".encode()).hexdigest()[:12], 16)
    return f"165{number % 10**10:010d}"


def node_guid(host_number: int, index: int) -> int:
    """The GUID of a host's HCA, in a range Mellanox's prefix marks."""
    return 0x0C42A10300000000 + (host_number << 16) + (index << 8)


def ports_of(is_gpu: bool) -> int:
    """How many HCAs a host has: eight, or one on a head host."""
    return PORTS_PER_GPU_HOST if is_gpu else 1
