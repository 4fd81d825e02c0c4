"""Facts of the host, from the probe's collectors: NVML, kernel log, ports, mounts, units, errors of memory, PCIe and drives."""

from __future__ import annotations

from appliance.probe.ask import Ask
from appliance.probe.collect import document
from appliance.probe.collectors.units import query
from appliance.probe.problems import Unreadable
from appliance.stages.fabric.collect.adapters import ports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

AREAS = ["gpus", "xids", "filesystems", "edac", "aer", "nvme"]
UNITS = ("munge.service", "nvidia-fabricmanager.service")


def gpus() -> Any:
    """The driver's view of the GPUs alone, as in HostFacts."""
    return document(Ask({"areas": ["gpus"]})).get("gpus")


def taken(root: str = "") -> dict[str, Any]:
    """Facts as in HostFacts; an area that could not be read is in ``errors``."""
    ask = Ask({"areas": AREAS}, root)
    facts = document(ask)
    for area, read in (("ports", ports), ("units", lambda a: query(a, UNITS))):
        try:
            facts[area] = read(ask)
        except (Unreadable, OSError) as error:
            facts["errors"][area] = str(error)
    return facts
