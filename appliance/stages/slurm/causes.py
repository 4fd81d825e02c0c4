"""Causes that several checks of Slurm have."""

from appliance.checks.causes import NAMED_CHECK, Cause, Reach, is_unknown

NO_MUNGE = Cause("slurm.munge", "Slurm's daemons speak through munge")
NO_CONTROLLER = Cause("slurm.controller", "only the controller knows them", Reach.SITE, is_unknown)
UNFIT = Cause(NAMED_CHECK, "its own watch finds the host unfit for it")
