"""The simulated hardware of a rack by its profile: GPUs and ports per host, and their positions."""

import hashlib
from dataclasses import dataclass

from appliance.errors import ConfigError
from appliance.lab.parts import GpuModel, part, parts
from appliance.models.profile import GpuExpectation, Profile

MOST = 8
INFINIBAND_RATES = {100: "4xEDR", 200: "4xHDR"}
"""Rates that the fabric simulator supports: for any other it uses 10 Gb/s."""

DRIVERS = {
    "535": ("535.309.01", 12020),
    "550": ("550.163.01", 12040),
    "570": ("570.211.01", 12080),
    "580": ("580.178.04", 13000),
}
"""A driver of each branch with the CUDA it brings, as NVML writes that."""


@dataclass(frozen=True)
class PciAddress:
    """The position of a device, behind a switch port of its own, and its NUMA node."""

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


# SXM: two GPUs and two ports share a PCIe switch, four switches, as on a DGX A100. Cards: slots of their own.
SXM_GPUS = (0x07, 0x0F, 0x47, 0x4E, 0x87, 0x90, 0xB7, 0xBD)
SXM_PORTS = (0x0C, 0x12, 0x4B, 0x54, 0x8D, 0x94, 0xBA, 0xCC)
CARD_GPUS = (0x17, 0x27, 0x37, 0x47, 0x97, 0xA7, 0xB7, 0xC7)
CARD_PORTS = (0x1B, 0x2B, 0x3B, 0x4B, 0x9B, 0xAB, 0xBB, 0xCB)


@dataclass(frozen=True)
class Hardware:
    """The hardware of each GPU host of a rack; ``interconnect`` and ``link_layer`` in the profile's terms, rate in Gb/s."""

    gpu: str = "a100-sxm"
    gpus: int = 8
    interconnect: str = "nvswitch"
    link_layer: str = "InfiniBand"
    ports: int = 8
    rate: int = 200
    numa_nodes: int = 2
    driver_branch: str = "580"

    @property
    def model(self) -> GpuModel:
        return part(self.gpu)

    @property
    def has_subnet(self) -> bool:
        """Whether there is an InfiniBand fabric to simulate."""
        return self.link_layer == "InfiniBand" and self.ports > 0

    def ports_of(self, is_gpu: bool) -> int:
        """Number of ports of a host; a head host needs only one."""
        return self.ports if is_gpu else min(self.ports, 1)

    def gpu_place(self, index: int) -> PciAddress:
        """The position of GPU ``index``."""
        return self._place(CARD_GPUS if self.model.is_card else SXM_GPUS, index, self.gpus)

    def port_place(self, index: int, is_gpu: bool) -> PciAddress:
        """The position of the adapter ``mlx5_<index>``."""
        return self._place(
            CARD_PORTS if self.model.is_card else SXM_PORTS, index, self.ports_of(is_gpu)
        )

    def _place(self, buses: tuple[int, ...], index: int, count: int) -> PciAddress:
        """Devices spread evenly over buses and NUMA nodes."""
        return PciAddress(buses[index * MOST // count], index * self.numa_nodes // count)


def of_profile(profile: Profile, gpu: str = "") -> Hardware:
    """The hardware of a profile; ``gpu`` names a part, otherwise its first model is used. Raises ConfigError."""
    expected = profile.hardware
    fabric = expected.fabric
    if fabric.ports > MOST:
        raise ConfigError(f"the virtual rack has at most {MOST} ports per host, not {fabric.ports}")
    if fabric.link_layer == "InfiniBand" and fabric.rate_gbps not in INFINIBAND_RATES:
        raise ConfigError(
            f"the fabric simulator does not support InfiniBand of {fabric.rate_gbps} Gb/s",
            "a profile with " + " or ".join(f"{rate} Gb/s" for rate in INFINIBAND_RATES),
        )
    return Hardware(
        gpu=(part(gpu) if gpu else _known(expected.gpu)).key,
        gpus=expected.gpu.count,
        interconnect=expected.gpu.interconnect.value,
        link_layer=fabric.link_layer,
        ports=0 if fabric.link_layer == "none" else fabric.ports,
        rate=fabric.rate_gbps,
        numa_nodes=expected.host.numa_nodes,
        driver_branch=profile.software.driver_branch,
    )


def _known(expected: GpuExpectation) -> GpuModel:
    for name in expected.models:
        for model in parts():
            if model.name == name:
                return model
    raise ConfigError(
        f"the virtual rack cannot simulate {' or '.join(expected.models)}",
        "it knows " + ", ".join(model.name for model in parts()),
    )


def uuid(host: str, index: int) -> str:
    """A GPU's UUID, the same at every start of the same host."""
    text = hashlib.sha256(f"{host}/gpu{index}".encode()).hexdigest()
    return f"GPU-{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:32]}"


def serial(host: str, index: int) -> str:
    """A GPU's serial number: thirteen digits."""
    number = int(hashlib.sha256(f"{host}/serial{index}".encode()).hexdigest()[:12], 16)
    return f"165{number % 10**10:010d}"


def node_guid(host_number: int, index: int) -> int:
    """The GUID of a host's adapter, in a range Mellanox's prefix marks."""
    return 0x0C42A10300000000 + (host_number << 16) + (index << 8)
