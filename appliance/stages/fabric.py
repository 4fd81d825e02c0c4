"""Stage ``fabric``: RDMA user space, diagnostics and the subnet manager."""

from appliance.config.roles.fabric import variables
from appliance.models.site import Role
from appliance.stages.stage import Stage

STAGE = Stage(
    name="fabric",
    title="RDMA user space, diagnostics and the subnet manager",
    roles=frozenset({Role.CONTROL, Role.GPU}),
    after=("base",),
    ansible_roles=("fabric",),
    variables=variables,
    checks=(
        "fabric.active",
        "fabric.sm",
        "fabric.standby",
        "fabric.partitions",
        "fabric.ipoib",
        "fabric.roce",
    ),
    symptoms=(
        "fabric.ports",
        "fabric.state",
        "fabric.rate",
        "fabric.topology",
        "fabric.errors",
        "fabric.cabling",
        "fabric.links",
        "fabric.firmware",
    ),
    minutes=1.0,
)
