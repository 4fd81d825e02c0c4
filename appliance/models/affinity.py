"""The nearest adapters of each GPU: the rails of a host, from its PCI tree."""

from collections.abc import Iterable

from appliance.models.facts import HostFacts
from appliance.stages.fabric.facts import Port
from appliance.stages.gpu.facts import Gpu


def rails(facts: HostFacts) -> dict[int, tuple[str, ...]]:
    """GPU index -> the devices that share most of its path to the processor; () if that is unknown."""
    gpus = facts.gpus.devices if facts.gpus else ()
    return {gpu.index: _nearest(gpu, facts.ports) for gpu in gpus}


def _nearest(gpu: Gpu, ports: Iterable[Port]) -> tuple[str, ...]:
    shared = {port.device: _common(gpu.pci_path, port.pci_path) for port in ports}
    most = max(shared.values(), default=0)
    return tuple(device for device, common in shared.items() if most and common == most)


def _common(one: tuple[str, ...], other: tuple[str, ...]) -> int:
    """Bridges above both of them."""
    pairs = list(zip(one, other, strict=False))
    return next((at for at, (a, b) in enumerate(pairs) if a != b), len(pairs))
