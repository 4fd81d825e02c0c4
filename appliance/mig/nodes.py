"""Creates device nodes of MIG devices if the driver has not created them."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from appliance.probe import files
from appliance.probe.lines import lines_of
from appliance.probe.mig import NODES
from appliance.probe.nvml import Failure

if TYPE_CHECKING:
    from collections.abc import Iterable

    from appliance.probe.mig import Instance

CAPABILITIES = "/proc/driver/nvidia/capabilities"


def settle(minor: int, instances: Iterable[Instance], root: str = "") -> list[str]:
    """Create the missing nodes as in the driver's description of each; return them. Raises Failure."""
    made = []
    for one in instances:
        whole = f"{CAPABILITIES}/gpu{minor}/mig/gi{one.id}"
        for at in (whole, *(f"{whole}/ci{part.id}" for part in one.parts)):
            node = _settle(files.text(f"{root}{at}/access"), root)
            if node:
                made.append(node)
    return made


def _settle(description: str, root: str) -> str:
    """Parse lines such as ``DeviceFileMinor: 12`` and ``DeviceFileMode: 292``."""
    told = dict(
        line.replace(" ", "").split(":", 1) for line in lines_of(description) if ":" in line
    )
    minor, mode = told.get("DeviceFileMinor", ""), told.get("DeviceFileMode", "")
    major = _major(files.text(root + "/proc/devices"))
    node = f"{root}{NODES}{minor}"
    if not minor.isdigit() or major is None or files.exists(node):
        return ""
    try:
        os.makedirs(os.path.dirname(node), exist_ok=True)  # noqa: PTH103, PTH120
        os.mknod(node, stat.S_IFCHR | int(mode or "292"), os.makedev(major, int(minor)))
        os.chmod(node, int(mode or "292"))  # noqa: PTH101
    except OSError as error:
        raise Failure(f"{node}: {error.strerror}") from None
    return node


def _major(devices: str) -> int | None:
    pairs = (line.split() for line in lines_of(devices))
    return next((int(p[0]) for p in pairs if len(p) == 2 and p[1] == "nvidia-caps"), None)
