"""A host's hardware from its facts, in the keys of a profile."""

import re
from collections.abc import Iterator
from typing import Any

from appliance.models.facts import HostFacts
from appliance.models.profile import Interconnect
from appliance.models.site import Site
from appliance.stages.fabric import ids as fabric_ids
from appliance.stages.fabric.checks.ports import is_active
from appliance.stages.gpu import ids as gpu_ids

GIB = 1 << 30
ROUNDING = 0.98
"""Identical hosts differ in the memory that their firmware reserves: the bound is below both."""
CARD = re.compile(r"PCIe|NVL")
"""Part of NVML's product names: a PCIe card, whose NVLinks are those of a bridge."""
Found = Iterator[tuple[str, Any]]


def shown_hardware(facts: HostFacts, site: Site) -> dict[str, Any]:
    """The keys of ``hardware`` that this host reports ("gpu.count"); others are left out."""
    return {key: value for part in (_gpus, _ports, _host) for key, value in part(facts, site)}


def _gpus(facts: HostFacts, site: Site) -> Found:
    del site
    if facts.pci_gpus:
        yield gpu_ids.COUNT, facts.pci_gpus
    devices = facts.gpus.devices if facts.gpus else ()
    models = sorted({gpu.name for gpu in devices})
    if len(models) != 1 or not models[0] or len(devices) != facts.pci_gpus:
        return
    yield "gpu.models", models
    yield "gpu.memory_gib", round(min(gpu.memory for gpu in devices) / GIB)
    links = [gpu.nvlinks_active for gpu in devices]
    # MIG disables NVLink on an A100.
    if None not in links and not any(gpu.mig_enabled for gpu in devices):
        linked = Interconnect.NVLINK_BRIDGE if CARD.search(models[0]) else Interconnect.NVSWITCH
        yield "gpu.interconnect", (linked if any(links) else Interconnect.PCIE).value
    for key, slots in (
        ("gpu.pcie_generation", [gpu.pcie_max_generation for gpu in devices]),
        ("gpu.pcie_width", [gpu.pcie_max_width for gpu in devices]),
    ):
        if all(slots):
            yield key, min(filter(None, slots))


def _ports(facts: HostFacts, site: Site) -> Found:
    """Ports of the fastest port's kind. The rate is a bound only if all of them are active and equal: one may be slow.

    A host without ports may only lack a driver, so this does not prove that the class has none.
    """
    del site
    if "fabric" in facts.errors or not facts.ports:
        return
    kind = max(facts.ports, key=lambda port: port.rate).link_layer
    alike = [port for port in facts.ports if port.link_layer == kind]
    yield "fabric.link_layer", kind
    yield fabric_ids.PORTS, len(alike)
    if all(map(is_active, alike)) and len({port.rate for port in alike}) == 1:
        yield "fabric.rate_gbps", int(alike[0].rate)


def _host(facts: HostFacts, site: Site) -> Found:
    """A container shows its machine's hardware, which says nothing about a host."""
    if facts.os.container or "cpu" in facts.errors or not facts.cpu.cores:
        return
    yield "host.sockets", facts.cpu.sockets
    yield "host.cores", facts.cpu.cores
    yield "host.memory_gib", int(facts.memory.total * ROUNDING) // GIB
    yield "host.numa_nodes", sum(1 for node in facts.numa if node.cpus and node.memory)
    mounted = {one.at: one for one in facts.filesystems}
    root = mounted["/"].source if "/" in mounted else ""
    of_root = [disk.size for disk in facts.disks if _is_of(root.rpartition("/")[2], disk.name)]
    if of_root:
        yield "host.system_disk_gib", of_root[0] // GIB
    scratch = mounted.get(site.storage.scratch.at) if site.storage.scratch else None
    if scratch and scratch.source != root:
        yield "host.scratch_disk_gib", int(scratch.size * ROUNDING) // GIB


def _is_of(device: str, disk: str) -> bool:
    """Whether a device is the disk or a partition of it: sda2 of sda, nvme0n1p2 of nvme0n1."""
    part = r"p\d+" if disk[-1:].isdigit() else r"\d+"
    return re.fullmatch(rf"{re.escape(disk)}({part})?", device) is not None
