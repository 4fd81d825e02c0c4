"""GPU hosts made up for the tests of the GPU checks: sound ones, and what to change in them."""

from typing import Any

from appliance.checks.check import View
from appliance.models.facts import HostFacts
from appliance.models.profile import Limit, Profile
from appliance.models.result import CheckResult
from appliance.models.site import Site
from appliance.stages.gpu.checks.software import SERVICES
from tests.support.facts import facts_of
from tests.support.judging import said_by
from tests.support.profiles import profile_of
from tests.support.sites import site_of

HOSTS = ("gpu-1", "gpu-2", "gpu-3")
GPUS = 4
DRIVER = "580.95.05"
A100 = "NVIDIA A100-SXM4-80GB"
H100 = "NVIDIA H100 80GB HBM3"
ACTIVE = {"load": "loaded", "active": "active", "sub": "running", "enabled": "enabled"}
ABSENT = {"load": "not-found", "active": "inactive", "sub": "dead", "enabled": ""}


def profile(interconnect: str = "nvswitch", models: tuple[str, ...] = (A100, H100)) -> Profile:
    """A class of four GPUs."""
    return profile_of(gpu={"count": GPUS, "models": models, "interconnect": interconnect})


def site(**limits: Any) -> Site:
    """A head host and three GPU hosts; ``limits`` with underscores for dots, value only."""
    given = {
        name.replace("_", "."): Limit(value=value, source="our own")
        for name, value in limits.items()
    }
    return site_of("head", *HOSTS, limits=given)


def bus(index: int) -> str:
    """Where a GPU sits, as sysfs writes it."""
    return f"0000:{7 + 16 * index:02x}:00.0"


def gpu(index: int, **changes: Any) -> dict[str, Any]:
    """A sound GPU at rest."""
    return {
        "index": index,
        "uuid": f"GPU-{index}",
        "name": A100,
        "serial": f"165{index}",
        "vbios": "92.00.45.00.03",
        "bus_id": f"0000{bus(index).upper()}",
        "memory": 80 << 30,
        "pcie_generation": 4,
        "pcie_width": 16,
        "pcie_max_generation": 4,
        "pcie_max_width": 16,
        "pcie_gpu_generation": 4,
        "pcie_replays": 0,
        "temperature": 31,
        "temperature_slowdown": 89,
        "power_limit": 400.0,
        "power_default": 400.0,
        "utilization": 0,
        "ecc_enabled": True,
        "ecc_uncorrected": 0,
        "ecc_uncorrected_aggregate": 0,
        "sram_uncorrected": 0,
        "sram_exceeded": False,
        "remap_pending": False,
        "remap_failed": False,
        "remapped_rows": 0,
        "mig_enabled": False,
        "nvlinks_active": 12,
        "nvlink_speed": 25000,
        "persistence": True,
        "clock_event_reasons": 1,
        "processes": 0,
        **changes,
    }


def lost(index: int) -> dict[str, Any]:
    """What NVML says of a GPU it has lost."""
    error = "DeviceGetHandleByIndex_v2: GPU is lost"
    return {"index": index, "uuid": "", "name": "", "bus_id": "", "memory": 0, "error": error}


def facts(host: str = "gpu-1", *gpus: dict[str, Any], **changes: Any) -> HostFacts:
    """A sound host, with GPUs replaced by index."""
    found = {i: gpu(i) for i in range(GPUS)} | {g["index"]: g for g in gpus}
    return facts_of(
        host,
        **{
            "pci_gpus": GPUS,
            "pci_gpu_ids": [bus(i) for i in range(GPUS)],
            "gpus": {"driver": DRIVER, "nvml": f"13.{DRIVER}", "devices": list(found.values())},
            "fabric_manager": DRIVER,
            "units": {
                "nvidia-fabricmanager.service": ACTIVE,
                "nvidia-persistenced.service": ACTIVE,
                **dict.fromkeys(SERVICES, ACTIVE),
            },
            "xid_events": [],
            **changes,
        },
    )


def view(*changed: HostFacts, profile_: Profile | None = None, site_: Site | None = None) -> View:
    """A sound site, with some hosts' facts replaced."""
    known = {host: facts(host) for host in HOSTS} | {f.host: f for f in changed}
    return View(profile_ or profile(), site_ or site(), known)


def judge(check_id: str, seen: View, host: str = "gpu-1") -> list[CheckResult]:
    """The results of one check."""
    return said_by(check_id, seen, host)


def one(check_id: str, seen: View | HostFacts, host: str = "gpu-1") -> CheckResult:
    """The only result of one check."""
    (result,) = judge(check_id, view(seen) if isinstance(seen, HostFacts) else seen, host)
    return result
