"""Rules over a profile's hardware: what such a machine cannot be."""

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
    """Ports, rate and link layer belong together."""
    given = profile.hardware.fabric
    if given.link_layer == "none":
        for key, value in (("ports", given.ports), ("rate_gbps", given.rate_gbps)):
            if value:
                yield checked.finding(
                    (*FABRIC, key),
                    f"is {value}, but link_layer is none",
                    "write 0, or name the link layer",
                )
        return
    if not given.ports:
        yield checked.finding(
            (*FABRIC, "ports"),
            f"is 0, but link_layer is {given.link_layer}",
            "count the ports, or write link_layer: none",
        )
    if given.rate_gbps not in RATES[given.link_layer]:
        rates = ", ".join(map(str, RATES[given.link_layer]))
        yield checked.finding(
            (*FABRIC, "rate_gbps"),
            f"{given.rate_gbps} is no rate of {given.link_layer}",
            f"one of {rates} (Gb/s per port)",
        )


def gpus(checked: Checked[Profile], profile: Profile) -> Iterator[Finding]:
    """Interconnect, lanes and models are such as exist."""
    gpu = profile.hardware.gpu
    if gpu.interconnect is Interconnect.NVLINK_BRIDGE and gpu.count % 2:
        yield checked.finding(
            (*GPU, "count"),
            f"{gpu.count} GPUs cannot be bridged in pairs",
            "take an even count, or interconnect: pcie",
        )
    if gpu.interconnect is Interconnect.NVSWITCH and any("PCIe" in m for m in gpu.models):
        yield checked.finding(
            (*GPU, "interconnect"),
            "nvswitch, but a PCIe card is among the models",
            "take nvlink-bridge or pcie, or SXM models",
        )
    if gpu.pcie_width not in (1, 2, 4, 8, 16):
        yield checked.finding(
            (*GPU, "pcie_width"),
            f"{gpu.pcie_width} is no PCIe width",
            "one of 1, 2, 4, 8, 16 lanes",
        )
    for i, model in enumerate(gpu.models):
        if model in gpu.models[:i]:
            yield checked.finding((*GPU, "models", i), f'"{model}" stands twice', "keep one")


def host(checked: Checked[Profile], profile: Profile) -> Iterator[Finding]:
    """A socket has a core, a NUMA node has a core."""
    given = profile.hardware.host
    for key, count in (("sockets", given.sockets), ("numa_nodes", given.numa_nodes)):
        if given.cores < count:
            yield checked.finding(
                (*HOST, "cores"),
                f"{given.cores} cores are fewer than {count} {key}",
                "cores counts all of the host's",
            )


def reserved(checked: Checked[Profile], profile: Profile) -> Iterator[Finding]:
    """Huge pages leave a host what is kept from jobs, which is a quarter of a small one at most."""
    memory = profile.hardware.host.memory_gib << 10
    pages = profile.stages.hugepages_2m << 1
    room = memory - min(profile.stages.slurm_memory_reserve_mib, memory // 4)
    if pages > room:
        yield checked.finding(
            ("stages", "hugepages_2m"),
            f"takes {pages:,} MiB from programs, and a host has {memory:,} MiB",
            f"at most {room >> 1}: the system needs some, too",
        )


def scale(checked: Checked[Profile], profile: Profile) -> Iterator[Finding]:
    """The range of GPU hosts is one."""
    if profile.gpu_hosts.minimum > profile.gpu_hosts.maximum:
        message = f"{profile.gpu_hosts.minimum} is more than maximum, {profile.gpu_hosts.maximum}"
        yield checked.finding(("gpu_hosts", "minimum"), message, "swap them")
