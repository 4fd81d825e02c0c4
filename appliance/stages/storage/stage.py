"""Stage ``storage``: the NFS server, its mounts, and local scratch."""

from appliance.models.site import Role
from appliance.stages.stage import Stage
from appliance.stages.storage.checks import CHECKS, UNITS
from appliance.stages.storage.restarts import RESTARTS
from appliance.stages.storage.variables import variables

STAGE = Stage(
    name="storage",
    title="NFS server, mounts and local scratch",
    roles=frozenset({Role.STORAGE, Role.GPU, Role.CONTROL, Role.LOGIN}),
    after=("base",),
    ansible_roles=("storage",),
    variables=variables,
    judges=CHECKS,
    units=UNITS,
    minutes=1.0,
    owns=("/etc/exports.d/*",),
    restarts=RESTARTS,
)
