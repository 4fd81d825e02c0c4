"""Checks whether adapters and processors can access GPU memory directly: GPUDirect RDMA and GDRCopy."""

from collections.abc import Iterable, Iterator
from typing import Any

from appliance.checks.check import (
    GPU_HOSTS,
    Check,
    HostCheck,
    Nature,
    View,
    failed,
    not_assessed,
    passed,
)
from appliance.models.facts import HostFacts
from appliance.models.result import Judgement, place
from appliance.models.site import Host
from appliance.stages.fabric import ids

PEER_MEMORY, GDRCOPY = "nvidia_peermem", "gdrdrv"
GPU_DIRECT = "NVIDIA, GPU Operator, GPUDirect RDMA and GPUDirect Storage"
COPY = "NVIDIA, GDRCopy"
BORROWED = "a container uses the kernel modules of its machine"
INSTALL = (
    "install NVIDIA's packages libgdrapi and gdrdrv-dkms on {host}; echo gdrdrv > /etc/modules-load.d/gdrdrv.conf; "
    "modprobe gdrdrv"
)


def judge_gpu_direct(view: View, host: Host, facts: HostFacts) -> Iterable[Judgement]:
    """Judge GPUDirect RDMA: by nvidia_peermem, or by dma-buf, which NVIDIA's open kernel modules have."""
    wanted, ports = view.profile.stages.tuning, view.profile.hardware.fabric.ports
    if not (wanted.gpu_direct and ports) and not wanted.gdrcopy:
        return
    simulated = "gpu" in facts.simulated
    common: dict[str, Any] = {"simulated": simulated}
    if facts.os.container:
        yield not_assessed(host.name, BORROWED, required=False, **common)
        return
    if facts.tuning is None:
        yield not_assessed(host.name, facts.gap("tuning"), **common)
        return
    if wanted.gpu_direct and ports:
        yield _registered(view, host, facts, facts.tuning.gpu_modules, common)
    if wanted.gdrcopy:
        yield from _copied(host, facts, common)


def _registered(
    view: View, host: Host, facts: HostFacts, modules: str, common: dict[str, Any]
) -> Judgement:
    source = {"limit": f"{PEER_MEMORY} or dma-buf", "limit_source": GPU_DIRECT}
    if PEER_MEMORY in facts.modules:
        return passed(host.name, PEER_MEMORY, **source, **common)
    if modules == "open":
        return passed(host.name, "dma-buf", **source, **common)
    if not modules:
        why = "no NVIDIA driver is loaded"
        return not_assessed(host.name, why, required=not common["simulated"], **source, **common)
    cause = f"adapters cannot access GPU memory: the driver's kernel modules are proprietary and {PEER_MEMORY} is not loaded"
    fix = (
        f"on {host.name}: modprobe {PEER_MEMORY}; appliance deploy --stage gpu loads it at boot"
        if view.site.fabric.driver == "doca"
        else "set repositories.gpu.kernel_modules: open and run appliance deploy --stage gpu; for GPUs without open modules, "
        "set fabric.driver: doca"
    )
    return failed(host.name, cause, fix, value="none", **source, **common)


def _copied(host: Host, facts: HostFacts, common: dict[str, Any]) -> Iterator[Judgement]:
    at, source = place(host.name, "GDRCopy"), {"limit": GDRCOPY, "limit_source": COPY}
    if GDRCOPY in facts.modules:
        yield passed(at, GDRCOPY, **source, **common)
    else:
        cause, fix = f"the module {GDRCOPY} is not loaded", INSTALL.format(host=host.name)
        yield failed(at, cause, fix, **source, **common)


CHECKS: tuple[Check, ...] = (
    HostCheck(
        id=ids.GPU_DIRECT,
        title="Adapters access GPU memory",
        nature=Nature.SYMPTOM,
        roles=GPU_HOSTS,
        judge=judge_gpu_direct,
        explain="Whether the kernel can give adapters access to GPU memory: by the module nvidia_peermem, or by dma-buf with NVIDIA's open kernel "
        "modules. Without it, every transfer is copied through the memory of the host. If the profile asks for GDRCopy, its module must be "
        "loaded, too. The bandwidth is measured by perftest.gpu_write_bw.",
        limit="stages.tuning of the profile: gpu_direct, gdrcopy",
        by_container=True,
    ),
)
