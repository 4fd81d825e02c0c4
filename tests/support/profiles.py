"""A profile for tests: hosts of eight A100 without a fabric, and what a test changes of them."""

from typing import Any

from appliance.models.profile import Profile


def profile_of(**changes: Any) -> Profile:
    """``gpu``, ``fabric`` and ``host`` are merged into the hardware, anything else stands beside it."""
    hardware: dict[str, dict[str, Any]] = {
        "gpu": {
            "count": 8,
            "models": ["NVIDIA A100-SXM4-80GB"],
            "memory_gib": 80,
            "interconnect": "nvswitch",
            "pcie_generation": 4,
        },
        "fabric": {"link_layer": "none", "ports": 0, "rate_gbps": 0},
        "host": {
            "sockets": 2,
            "cores": 96,
            "memory_gib": 960,
            "numa_nodes": 2,
            "system_disk_gib": 0,
            "scratch_disk_gib": 0,
        },
    }
    software = {"operating_systems": ["debian-12"], "driver_branch": "580", "cuda": "13.0"}
    return Profile.model_validate(
        {
            "version": 1,
            "name": "t",
            "title": "T",
            "hardware": {
                part: {**least, **changes.pop(part, {})} for part, least in hardware.items()
            },
            "software": software,
            **changes,
        }
    )
