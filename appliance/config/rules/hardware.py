"""Rules for a profile's hardware: impossible combinations."""

from collections.abc import Iterator

from appliance.config.finding import Finding, KeyPath
from appliance.config.schema import Checked
from appliance.models.profile import Interconnect, Profile

# Gb/s of a 4x InfiniBand link (SDR to XDR) and of an Ethernet port, as sold.
RATES = {
    "InfiniBand": (10, 20, 40, 56, 100, 200, 400, 800),
    "Ethernet": (1, 10, 25, 40, 50, 100, 200, 400, 800),
}
FABRIC: KeyPath = ("hardware", "fabric")
GPU: KeyPath = ("hardware", "gpu")
HOST: KeyPath = ("hardware", "host")


def fabric(checked: Checked[Profile], profile: Profile) -> Iterator[Finding]:
    """Ports, rate and link layer are consistent."""
    given = profile.hardware.fabric
    if given.link_layer == "none":
        for key, value in (("ports", given.ports), ("rate_gbps", given.rate_gbps)):
            if value:
                yield checked.finding(
                    (*FABRIC, key),
                    f"is {value}, but link_layer is none",
                    "write 0, or set link_layer",
                )
        return
    if not given.ports:
        yield checked.finding(
            (*FABRIC, "ports"),
            f"is 0, but link_layer is {given.link_layer}",
            "write the number of ports, or link_layer: none",
        )
    if given.rate_gbps not in RATES[given.link_layer]:
        rates = ", ".join(map(str, RATES[given.link_layer]))
        yield checked.finding(
            (*FABRIC, "rate_gbps"),
            f"{given.rate_gbps} is not a rate of {given.link_layer}",
            f"one of {rates} (Gb/s per port)",
        )


def gpus(checked: Checked[Profile], profile: Profile) -> Iterator[Finding]:
    """Interconnect, lanes and models exist."""
    gpu = profile.hardware.gpu
    if gpu.interconnect is Interconnect.NVLINK_BRIDGE and gpu.count % 2:
        yield checked.finding(
            (*GPU, "count"),
            f"{gpu.count} GPUs cannot be bridged in pairs",
            "use an even count, or interconnect: pcie",
        )
    if gpu.interconnect is Interconnect.NVSWITCH and any("PCIe" in m for m in gpu.models):
        yield checked.finding(
            (*GPU, "interconnect"),
            "nvswitch is set, but models include a PCIe card",
            "use nvlink-bridge or pcie, or SXM models",
        )
    if gpu.pcie_width not in (1, 2, 4, 8, 16):
        yield checked.finding(
            (*GPU, "pcie_width"),
            f"{gpu.pcie_width} is not a PCIe width",
            "one of 1, 2, 4, 8, 16 lanes",
        )
    for i, model in enumerate(gpu.models):
        if model in gpu.models[:i]:
            yield checked.finding((*GPU, "models", i), f'"{model}" is listed twice', "keep one")


def software(checked: Checked[Profile], profile: Profile) -> Iterator[Finding]:
    """GPUs have a driver."""
    if profile.has_gpus and not profile.software.driver_branch and checked.whole("software"):
        yield checked.finding(
            ("software",),
            "is missing, but GPUs need a driver",
            "add software: operating_systems, driver_branch and cuda at least",
        )


def host(checked: Checked[Profile], profile: Profile) -> Iterator[Finding]:
    """Each socket and each NUMA node has at least one core."""
    given = profile.hardware.host
    for key, count in (("sockets", given.sockets), ("numa_nodes", given.numa_nodes)):
        if given.cores < count:
            yield checked.finding(
                (*HOST, "cores"),
                f"{given.cores} cores are fewer than {count} {key}",
                "cores is the total per host",
            )


def reserved(checked: Checked[Profile], profile: Profile) -> Iterator[Finding]:
    """Huge pages leave the memory that is reserved from jobs, at most a quarter of a small host."""
    memory = profile.hardware.host.memory_gib << 10
    pages = profile.stages.hugepages_2m << 1
    room = memory - min(profile.stages.slurm_memory_reserve_mib, memory // 4)
    if pages > room:
        yield checked.finding(
            ("stages", "hugepages_2m"),
            f"reserves {pages:,} MiB, but a host has {memory:,} MiB",
            f"at most {room >> 1}: the operating system needs memory, too",
        )


def scale(checked: Checked[Profile], profile: Profile) -> Iterator[Finding]:
    """The range of GPU hosts is valid."""
    if profile.gpu_hosts.minimum > profile.gpu_hosts.maximum:
        message = (
            f"{profile.gpu_hosts.minimum} is greater than maximum, {profile.gpu_hosts.maximum}"
        )
        yield checked.finding(("gpu_hosts", "minimum"), message, "swap them")
