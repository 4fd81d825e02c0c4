"""Stage slurm: jobs on GPUs, with accounting."""

from appliance.models.site import Role
from appliance.stages.slurm import checks
from appliance.stages.slurm.checks import containers, logins, watch
from appliance.stages.slurm.restarts import RESTARTS
from appliance.stages.slurm.variables import variables
from appliance.stages.stage import Stage

STAGE = Stage(
    name="slurm",
    title="Slurm: controller, accounting, GPU hosts",
    roles=frozenset({Role.CONTROL, Role.GPU, Role.LOGIN}),
    after=("base", "gpu", "storage"),
    facts_from=("gpu", "mig", "fabric"),
    ansible_roles=("slurm",),
    variables=variables,
    judges=(*checks.CHECKS, *containers.CHECKS, *watch.CHECKS, *logins.CHECKS),
    units=checks.UNITS,
    minutes=3.0,
    owns=(
        *("/etc/slurm/*", "!/etc/slurm/prolog.d", "!/etc/slurm/epilog.d", "!/etc/slurm/health.d"),
        "!/etc/slurm/plugstack.conf.d",
        *("/etc/slurm/prolog.d/*", "/etc/slurm/epilog.d/*", "/etc/slurm/health.d/*"),
        "/etc/slurm/plugstack.conf.d/*",
    ),
    restarts=RESTARTS,
)
