"""Conditions under which one fault explains several checks of Slurm."""

from appliance.checks.causes import NAMED_CHECK, Cause, Reach, is_unknown
from appliance.models.result import CheckResult, Kind
from appliance.stages.slurm import ids

NO_MUNGE = Cause(ids.MUNGE, "Slurm's daemons authenticate with munge")
NO_CONTROLLER = Cause(
    ids.CONTROLLER, "only the controller has this information", Reach.SITE, is_unknown
)
UNFIT = Cause(NAMED_CHECK, "the host's own watch reports it unfit for jobs")


def short_of_gpus(cause: CheckResult, effect: CheckResult) -> bool:
    """Return whether slurmctld drained the node because it registered with fewer GPUs than in slurm.conf."""
    del cause
    return effect.kind is Kind.TOO_FEW_GPUS
