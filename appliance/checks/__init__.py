"""Judgements of facts against expectations; one file per area. This tuple is the list of all checks."""

from appliance.checks import base, fabric, observe, slurm, storage
from appliance.checks.check import Check

CHECKS: tuple[Check, ...] = (
    *base.CHECKS,
    *fabric.CHECKS,
    *storage.CHECKS,
    *slurm.CHECKS,
    *observe.CHECKS,
)

WATCHED_UNITS: tuple[str, ...] = (
    *base.UNITS,
    *fabric.UNITS,
    *storage.UNITS,
    *slurm.UNITS,
    *observe.UNITS,
)
"""Units whose state the probe is asked for; one a host lacks is reported as not found."""
