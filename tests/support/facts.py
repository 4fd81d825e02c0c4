"""Facts of a host for tests: the least a probe can answer, and what a test changes of it."""

from typing import Any

from appliance.models.facts import HostFacts
from appliance.stages.gpu.facts import Gpu, Gpus


def facts_of(host: str, **changes: Any) -> HostFacts:
    """A Debian 12 machine that says nothing else; a change that is a mapping is merged into what is there."""
    least: dict[str, Any] = {
        "version": 1,
        "host": host,
        "taken": "2026-11-20T12:00:00Z",
        "cpu_seconds": 0.1,
        "user": "root",
        "os": {
            "id": "debian",
            "version_id": "12",
            "kernel": "6.1",
            "boot_id": f"boot-{host}",
            "hostname": host,
            "cgroup": "v2",
        },
        "cpu": {"model": "x", "sockets": 2, "cores": 96, "threads": 192},
        "memory": {"total": 1 << 34, "available": 1 << 33},
        "clock": {"time": 1.0},
    }
    for key, value in changes.items():
        is_merged = isinstance(value, dict) and key in least
        least[key] = {**least[key], **value} if is_merged else value
    return HostFacts.model_validate(least)


def gpus_of(name: str, count: int, first: int = 0) -> Gpus:
    """GPUs of one model; the first has the number ``first`` in its UUID, the others their index."""
    devices = tuple(
        Gpu(
            index=index,
            uuid=f"GPU-{100 + first if index == 0 else index}",
            name=name,
            bus_id=f"0000:{index + 1:02x}:00.0",
            memory=80 << 30,
        )
        for index in range(count)
    )
    return Gpus(driver="580.82", nvml="12", devices=devices)
