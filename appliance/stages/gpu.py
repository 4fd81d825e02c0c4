"""Stage ``gpu``: driver, fabric manager, container toolkit and DCGM of every GPU host."""

from appliance.config.roles.context import Variables
from appliance.config.roles.gpu import variables
from appliance.models.facts import HostFacts
from appliance.models.site import Host, Role
from appliance.stages.stage import Stage


def unloads(host: Host, facts: HostFacts | None, variables: Variables) -> bool:
    """Whether a driver of another release is loaded: it is unloaded, or the host rebooted where it does not go."""
    loaded = facts.gpus.driver if facts and facts.gpus else ""
    wanted = str(variables["gpu_release"]).split(".")
    return bool(loaded) and loaded.split(".")[: len(wanted)] != wanted


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
)
