"""Stage ``gpu``: driver, fabric manager, container toolkit and DCGM of every GPU host."""

import re

from appliance.models.facts import HostFacts
from appliance.models.site import Host, Role
from appliance.stages.context import Variables
from appliance.stages.gpu.checks import CHECKS, UNITS
from appliance.stages.gpu.restarts import restarts
from appliance.stages.gpu.variables import variables
from appliance.stages.stage import PINS, Stage

WORKING = frozenset({"slurm", "kubernetes"})
"""Stages that give a host work."""

DRIVER = re.compile(
    r"(nvidia|libnvidia|xserver-xorg-video-nvidia|cuda-drivers|kmod-nvidia)(?!-container)"
)
"""Packages in the driver's version, by NVIDIA's and the distributions' names; without the container toolkit."""


def unloads(host: Host, facts: HostFacts | None, variables: Variables) -> bool:
    """Return whether a wrong driver is loaded: it is unloaded, or the host is rebooted if that fails."""
    if facts is None:
        return False
    loaded = facts.gpus.driver if facts.gpus else ""
    pins = variables.get(PINS)
    restored = (
        {n: str(v) for n, v in pins.items() if DRIVER.match(n)} if isinstance(pins, dict) else {}
    )
    wanted = str(variables["gpu_release"]).split(".")
    moves = any(loaded not in version for version in restored.values())
    other = loaded.split(".")[: len(wanted)] != wanted or moves
    return (bool(loaded) and other) or "nouveau" in facts.modules


def may_work(facts: HostFacts) -> bool:
    """Return whether the host may have running work; true if its finished stages are unknown."""
    unknown = "receipts" in facts.errors and not facts.receipts
    return unknown or not WORKING.isdisjoint(facts.receipts)


def disturbs(host: Host, facts: HostFacts | None, variables: Variables) -> bool:
    """Return whether, by the facts, the host may have running work while the driver is unloaded."""
    return facts is not None and may_work(facts) and moves(host, facts, variables)


def moves(host: Host, facts: HostFacts | None, variables: Variables) -> bool:
    """Return whether, by the facts, the driver will be unloaded or repaired."""
    if facts is None:
        return False
    receipt = facts.receipts.get("gpu")
    drifted = receipt is not None and any(
        DRIVER.match(d.name) and d.kind != "unit file" for d in receipt.drift
    )
    silent = facts.gpus is None or not facts.gpus.driver
    return silent or drifted or unloads(host, facts, variables)


STAGE = Stage(
    name="gpu",
    title="NVIDIA driver, fabric manager, container toolkit and DCGM",
    roles=frozenset({Role.GPU}),
    after=("base",),
    ansible_roles=("gpu",),
    variables=variables,
    judges=CHECKS,
    units=UNITS,
    minutes=8.0,
    reboots=unloads,
    drains=disturbs,
    restarts=restarts(moves),
)
