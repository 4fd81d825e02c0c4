"""Stage ``gpu``: driver, fabric manager, container toolkit and DCGM of every GPU host."""

import re

from appliance.config.roles.context import Variables
from appliance.config.roles.gpu import variables
from appliance.models.facts import HostFacts
from appliance.models.site import Host, Role
from appliance.stages.stage import Stage

WORKING = frozenset({"slurm", "kubernetes"})
"""Stages that bring a host work."""

DRIVER = re.compile(
    r"(nvidia|libnvidia|xserver-xorg-video-nvidia|cuda-drivers|kmod-nvidia)(?!-container)"
)
"""Packages that come in the driver's version, by NVIDIA's and the distributions' names; not the container toolkit's."""


def unloads(host: Host, facts: HostFacts | None, variables: Variables) -> bool:
    """Whether a driver of another release is loaded: it is unloaded, or the host rebooted where it does not go."""
    loaded = facts.gpus.driver if facts and facts.gpus else ""
    wanted = str(variables["gpu_release"]).split(".")
    return bool(loaded) and loaded.split(".")[: len(wanted)] != wanted


def disturbs(host: Host, facts: HostFacts | None, variables: Variables) -> bool:
    """Whether somebody's work may be there while the driver is unloaded, as far as the facts tell."""
    if facts is None or not WORKING & facts.receipts.keys():
        return False
    receipt = facts.receipts.get("gpu")
    drifted = receipt is not None and any(DRIVER.match(d.name) for d in receipt.drift)
    silent = facts.gpus is None or not facts.gpus.driver
    return silent or drifted or unloads(host, facts, variables)


STAGE = Stage(
    name="gpu",
    title="NVIDIA driver, fabric manager, container toolkit and DCGM",
    roles=frozenset({Role.GPU}),
    after=("base",),
    ansible_roles=("gpu",),
    variables=variables,
    checks=("gpu.driver", "gpu.fabric_manager", "gpu.persistence", "gpu.services"),
    minutes=8.0,
    symptoms=("gpu.driver_spread",),
    reboots=unloads,
    drains=disturbs,
)
