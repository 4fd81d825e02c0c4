"""Variables of role ``gpu``: the driver's release, source and kernel modules."""

import re

from appliance.models.facts import HostFacts
from appliance.models.profile import Interconnect, Profile
from appliance.models.site import Site
from appliance.stages.base.bundle import address
from appliance.stages.context import RoleContext, Variables

OPEN_SINCE = 560
"""First branch in which the open modules are NVIDIA's default (driver installation guide, 2026-09)."""

VOLTA = re.compile(r"\bV100\b")
"""Models without the GPU System Processor that the open modules need; Turing was the first with one (NVIDIA driver README, "Open Linux Kernel Modules")."""
VOLTA_UNTIL = 580
"""Last branch that supports Volta (NVIDIA Data Center Drivers, support of branches, 2025-07)."""
HOPPER = re.compile(r"\b(H\d{2,3}|GH\d{3})\b")
BLACKWELL = re.compile(r"\b(B\d{2,3}|GB\d{3})\b")
"""Product names of Blackwell, which the proprietary modules do not support (same guide)."""


def variables(context: RoleContext) -> Variables:
    """Return all variables of role gpu for one host."""
    site, software = context.site, context.profile.software
    source = site.repositories.gpu
    return {
        "gpu_release": software.driver_branch,
        "gpu_cuda_major": software.cuda.split(".")[0],
        "gpu_source": source.source,
        "gpu_mirror": address(site, context.own, "nvidia") or source.mirror or "",
        "gpu_key": source.key or "",
        "gpu_fingerprint": source.fingerprint or "",
        "gpu_kernel_modules": kernel_modules(context.profile, source.kernel_modules),
        "gpu_peer_memory": needs_peer_memory(context.profile, site),
        "gpu_fabric_manager": has_switches(context.profile),
        "gpu_profiling": site.base.profiling,
        "gpu_pod_names": site.kubernetes is not None,
        "gpu_by_variable": _by_variable(site, context.profile),
        "gpu_container": _in_container(site, context.own),
    }


def _by_variable(site: Site, profile: Profile) -> str:
    """Return who may get GPUs by NVIDIA_VISIBLE_DEVICES; "" without pods, or if a device plugin of the site may need it.

    The GPU Operator's device plugin passes devices by CDI (cdi-annotations, cdi-cri; v26.3.2 and v26.7.0), and its own pods are privileged.
    NVIDIA's device plugin without the operator is installed so. KAI gives a part of a GPU by that variable (v0.12.0).
    """
    given, scheduler = site.kubernetes, site.scheduler
    if given is None or given.external is not None:
        return ""
    chosen = given.device_plugin
    software = profile.software
    if chosen == "own" and scheduler is None:
        return ""
    if not (software.device_plugin if chosen == "plugin" else software.gpu_operator):
        return ""
    return "privileged" if scheduler is None or scheduler.sharing == "none" else "all"


def kernel_modules(profile: Profile, chosen: str) -> str:
    """Return open or proprietary: as set by the site, else by GPU generation and branch."""
    if chosen != "automatic":
        return chosen
    if only_proprietary(profile):
        return "proprietary"
    new = branch_of(profile.software.driver_branch) >= OPEN_SINCE
    hopper = any(HOPPER.search(model) for model in profile.hardware.gpu.models)
    return "open" if new or hopper or only_open(profile) else "proprietary"


def needs_peer_memory(profile: Profile, site: Site) -> bool:
    """Return whether adapters access GPU memory by nvidia_peermem: open modules have dma-buf, and the kernel's own RDMA lacks its interface."""
    modules = kernel_modules(profile, site.repositories.gpu.kernel_modules)
    wanted = profile.stages.tuning.gpu_direct and bool(profile.hardware.fabric.ports)
    return wanted and modules == "proprietary" and site.fabric.driver == "doca"


def only_open(profile: Profile) -> str:
    """Return the model of the profile that requires the open modules; "" if none does."""
    return next((m for m in profile.hardware.gpu.models if BLACKWELL.search(m)), "")


def only_proprietary(profile: Profile) -> str:
    """Return the model of the profile that the open modules do not support; "" if none."""
    return next((m for m in profile.hardware.gpu.models if VOLTA.search(m)), "")


def branch_of(driver: str) -> int:
    """Return the branch: ``580`` of ``580.95.05``."""
    return int(driver.split(".")[0])


def has_switches(profile: Profile) -> bool:
    """Return whether the class has NVSwitches."""
    return profile.hardware.gpu.interconnect is Interconnect.NVSWITCH


def _in_container(site: Site, facts: HostFacts | None) -> bool:
    return bool(facts.os.container) if facts else bool(site.simulated)
