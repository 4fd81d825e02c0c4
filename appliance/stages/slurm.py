"""Stage slurm: jobs on GPUs, with accounting."""

from appliance.config.roles.slurm import variables
from appliance.models.site import Role
from appliance.stages.stage import Stage

STAGE = Stage(
    name="slurm",
    title="Slurm: controller, accounting, GPU hosts",
    roles=frozenset({Role.CONTROL, Role.GPU, Role.LOGIN}),
    after=("base", "gpu", "storage"),
    learns_from=("gpu", "mig", "fabric"),
    ansible_roles=("slurm",),
    variables=variables,
    checks=(
        "slurm.munge",
        "slurm.daemons",
        "slurm.controller",
        "slurm.nodes",
        "slurm.gres",
        "slurm.accounting",
        "slurm.pyxis",
        "slurm.enroot",
    ),
    symptoms=("slurm.container_room",),
    minutes=3.0,
)
