"""Stage ``backup``: control hosts save Slurm's accounting and state, and etcd's snapshots, off the host."""

from appliance.models.site import Role
from appliance.stages.backup.checks import CHECKS, UNITS
from appliance.stages.backup.restarts import RESTARTS
from appliance.stages.backup.variables import variables, wanted
from appliance.stages.stage import Stage

STAGE = Stage(
    name="backup",
    title="Backups off the host",
    roles=frozenset({Role.CONTROL}),
    after=("base", "kubernetes", "slurm", "observe"),
    ansible_roles=("backup",),
    variables=variables,
    judges=CHECKS,
    units=UNITS,
    minutes=0.3,
    wanted=wanted,
    removable=True,
    checks_removal=False,
    restarts=RESTARTS,
)
"""Its role writes the first backup, so that the site is never without one once it is deployed."""
