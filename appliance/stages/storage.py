"""Stage ``storage``: the NFS server, its mounts, and local scratch."""

from appliance.config.roles.storage import variables
from appliance.models.site import Role
from appliance.stages.stage import Stage

STAGE = Stage(
    name="storage",
    title="NFS server, mounts and local scratch",
    roles=frozenset({Role.STORAGE, Role.GPU, Role.CONTROL, Role.LOGIN}),
    after=("base",),
    ansible_roles=("storage",),
    variables=variables,
    checks=(
        "storage.server",
        "storage.export",
        "storage.client",
        "storage.mount",
        "storage.scratch",
        "storage.scratch_size",
    ),
    minutes=1.0,
)
