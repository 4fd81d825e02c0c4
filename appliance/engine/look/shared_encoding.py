"""Encodes the accepted facts of a host for the journal: some hundred bytes, decoded quickly for a thousand hosts."""

from collections.abc import Mapping
from functools import lru_cache

from pydantic import ValidationError

from appliance.engine.look.shared_facts import SEEN, blank_facts
from appliance.engine.look.shared_gpus import gpu_of, instance_counts
from appliance.engine.look.shared_ports import port_of
from appliance.models.facts import HostFacts
from appliance.models.facts_host import Cpu, Memory
from appliance.stages.fabric.facts import Port
from appliance.stages.gpu.facts import Gpu, Gpus

OF_OS = ("id", "version_id", "container", "cgroup", "hostname")


def encoded_facts(facts: HostFacts) -> dict[str, object]:
    """Encode the facts of one host in a Standing."""
    cpu, devices = facts.cpu, facts.gpus.devices if facts.gpus else ()
    return {
        "os": [str(getattr(facts.os, name)) for name in OF_OS],
        "size": [cpu.sockets, cpu.cores, cpu.threads, facts.memory.total],
        "simulated": list(map(str, facts.simulated)),
        "exporter": bool(facts.units),
        "model": str(devices[0].name) if devices else "",
        "gpus": [_written(gpu) for gpu in devices],
        "ports": [f"{port.device} {port.port} {port.guid}" for port in facts.ports],
    }


def _written(gpu: Gpu) -> str:
    """Encode as ``0``, or ``0 3g.40gb:1 1g.10gb:1``: strings decode faster than nested lists."""
    return " ".join([str(gpu.index), *(f"{p}:{n}" for p, n in instance_counts(gpu.mig) or ())])


@lru_cache(4096)
def _gpu(model: str, text: str) -> Gpu:
    index, *parts = text.split(" ")
    divided = (part.rsplit(":", 1) for part in parts)
    return gpu_of(int(index), model, tuple((profile, int(n)) for profile, n in divided))


@lru_cache(1 << 15)
def _port(text: str) -> Port:
    device, place, guid = text.split(" ")
    return port_of(device, int(place), int(guid, 16))


def decoded_facts(host: str, found: object) -> HostFacts | None:
    """Decode to facts; None if the entry cannot be read."""
    if not isinstance(found, Mapping):
        return None
    try:
        sockets, cores, threads, memory = found["size"]
        system = dict(zip(OF_OS, map(str, found["os"]), strict=True))
        model = str(found["model"])
        devices = tuple(_gpu(model, text) for text in found["gpus"])
        return blank_facts().model_copy(
            update={
                "host": host,
                "os": blank_facts().os.model_copy(update=system),
                "cpu": Cpu(model="", sockets=sockets, cores=cores, threads=threads),
                "memory": Memory(total=memory, available=0),
                "simulated": tuple(map(str, found["simulated"])),
                "units": SEEN if found["exporter"] else {},
                "gpus": Gpus(driver="", nvml="", devices=devices) if devices else None,
                "ports": tuple(map(_port, found["ports"])),
            }
        )
    except (KeyError, TypeError, ValueError, AttributeError, ValidationError):
        return None
