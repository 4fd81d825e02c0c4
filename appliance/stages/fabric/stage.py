"""Stage ``fabric``: RDMA user space, diagnostics and the subnet manager."""

import re

from appliance.models.facts import HostFacts
from appliance.models.site import Host, Role
from appliance.stages.context import Variables
from appliance.stages.fabric.checks import CHECKS, UNITS
from appliance.stages.fabric.restarts import RESTARTS
from appliance.stages.fabric.variables import variables
from appliance.stages.gpu.stage import may_work
from appliance.stages.stage import Stage


def changes_driver(host: Host, facts: HostFacts | None, variables: Variables) -> bool:
    """Whether the adapters' driver differs from the configured one: the change needs a reboot."""
    if facts is None:
        return False
    module = facts.modules.get("mlx5_core")
    loaded = bool(module and module.version)
    if variables["fabric_driver"] == "inbox":
        receipt = facts.receipts.get("fabric")
        return loaded and bool(receipt and "doca-ofed" in receipt.versions)
    receipt = facts.receipts.get("fabric")
    installed = receipt.versions.get("doca-ofed", "") if receipt else ""
    release = str(variables["fabric_doca_release"]).split(".")
    return not loaded or re.split(r"[.-]", installed)[: len(release)] != release


def disturbs(host: Host, facts: HostFacts | None, variables: Variables) -> bool:
    """Whether the host may have running work when it reboots for its driver."""
    if facts is None or Role.GPU not in host.roles or not may_work(facts):
        return False
    return changes_driver(host, facts, variables)


STAGE = Stage(
    name="fabric",
    title="RDMA user space, diagnostics and the subnet manager",
    roles=frozenset({Role.CONTROL, Role.GPU}),
    after=("base",),
    ansible_roles=("fabric",),
    variables=variables,
    judges=CHECKS,
    units=UNITS,
    minutes=1.0,
    reboots=changes_driver,
    drains=disturbs,
    restarts=RESTARTS,
)
