"""The GPUs a rack can pretend to have: one table of parts, from which sysfs and the NVML state are made."""

from dataclasses import dataclass

from appliance.errors import ConfigError

AMPERE, HOPPER = 7, 9
NVLINK_3_1, NVLINK_4_0 = 5, 6


@dataclass(frozen=True)
class GpuModel:
    """One product: memory in MiB, power in W, clocks in MHz, temperatures in C, one link in MB/s.

    ``architecture`` and ``nvlink_version`` are NVML's numbers. Names, ids, memory, power, clocks and links
    are the products' own; board numbers, VBIOS and subsystems merely have the right shape.
    """

    key: str
    name: str
    is_card: bool
    pci_device: int
    pci_subsystem: int
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
    memory_clock: int
    sm_clock: int
    shutdown: int
    slowdown: int
    too_hot: int
    vbios: str
    board: str


PARTS = (
    GpuModel(
        key="a100-sxm",
        name="NVIDIA A100-SXM4-80GB",
        is_card=False,
        pci_device=0x20B2,
        pci_subsystem=0x147F,
        memory=81920,
        reserved=638,
        power=400,
        power_least=100,
        pcie_generation=4,
        nvlinks=12,
        nvlink_version=NVLINK_3_1,
        nvlink_speed=25000,
        architecture=AMPERE,
        compute=(8, 0),
        cores=6912,
        memory_clock=1593,
        sm_clock=1410,
        shutdown=92,
        slowdown=89,
        too_hot=85,
        vbios="92.00.45.00.03",
        board="692-2G506-0212-002",
    ),
    GpuModel(
        key="a100-pcie",
        name="NVIDIA A100 80GB PCIe",
        is_card=True,
        pci_device=0x20B5,
        pci_subsystem=0x1533,
        memory=81920,
        reserved=638,
        power=300,
        power_least=150,
        pcie_generation=4,
        nvlinks=12,
        nvlink_version=NVLINK_3_1,
        nvlink_speed=25000,
        architecture=AMPERE,
        compute=(8, 0),
        cores=6912,
        memory_clock=1512,
        sm_clock=1410,
        shutdown=92,
        slowdown=89,
        too_hot=85,
        vbios="92.00.68.00.01",
        board="900-21001-0020-000",
    ),
    GpuModel(
        key="h100-sxm",
        name="NVIDIA H100 80GB HBM3",
        is_card=False,
        pci_device=0x2330,
        pci_subsystem=0x16C1,
        memory=81559,
        reserved=551,
        power=700,
        power_least=200,
        pcie_generation=5,
        nvlinks=18,
        nvlink_version=NVLINK_4_0,
        nvlink_speed=26562,
        architecture=HOPPER,
        compute=(9, 0),
        cores=16896,
        memory_clock=2619,
        sm_clock=1980,
        shutdown=92,
        slowdown=89,
        too_hot=87,
        vbios="96.00.74.00.01",
        board="692-2G520-0200-000",
    ),
    GpuModel(
        key="h100-pcie",
        name="NVIDIA H100 PCIe",
        is_card=True,
        pci_device=0x2331,
        pci_subsystem=0x1626,
        memory=81559,
        reserved=551,
        power=350,
        power_least=200,
        pcie_generation=5,
        nvlinks=12,
        nvlink_version=NVLINK_4_0,
        nvlink_speed=26562,
        architecture=HOPPER,
        compute=(9, 0),
        cores=14592,
        memory_clock=1593,
        sm_clock=1755,
        shutdown=92,
        slowdown=89,
        too_hot=87,
        vbios="96.00.30.00.01",
        board="900-21010-0000-000",
    ),
    GpuModel(
        key="h200-sxm",
        name="NVIDIA H200",
        is_card=False,
        pci_device=0x2335,
        pci_subsystem=0x18BE,
        memory=143771,
        reserved=551,
        power=700,
        power_least=200,
        pcie_generation=5,
        nvlinks=18,
        nvlink_version=NVLINK_4_0,
        nvlink_speed=26562,
        architecture=HOPPER,
        compute=(9, 0),
        cores=16896,
        memory_clock=3201,
        sm_clock=1980,
        shutdown=92,
        slowdown=89,
        too_hot=87,
        vbios="96.00.99.00.01",
        board="692-2G520-0280-000",
    ),
)


def part(key: str) -> GpuModel:
    """The part called ``key``. Raises ConfigError."""
    for model in PARTS:
        if model.key == key:
            return model
    raise ConfigError(f'no GPU is called "{key}"', "one of " + ", ".join(m.key for m in PARTS))
