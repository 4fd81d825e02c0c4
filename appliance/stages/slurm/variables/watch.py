"""The hosts' own watch for Slurm."""

from appliance.checks.check import View
from appliance.stages.context import RoleContext, Variables
from appliance.stages.fitness import expected, most_out, program
from appliance.stages.slurm import ids


def watch(context: RoleContext) -> Variables:
    """The program, its limit, and its requirements."""
    options = context.site.slurm_options.watch
    return {
        "slurm_watch_program": program(context),
        "slurm_most_out": most_out(context.site, options),
        "slurm_return_after_minutes": options.return_after_minutes or 0,
        "slurm_watch_expects": {**expected(context), **_idle(context)},
    }


def _idle(context: RoleContext) -> Variables:
    """Memory in use of a GPU without a job, if site or profile set a limit."""
    own = View(context.profile, context.site, {}).number(ids.IDLE_GPUS)
    return {"idle_gib": own[0]} if own else {}
