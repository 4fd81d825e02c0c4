"""Judgements of facts against expectations; one file per area. This tuple is the list of all checks."""

from appliance.checks import base_host, fabric, observe, slurm, storage
from appliance.checks.base import Check

CHECKS: tuple[Check, ...] = (
    *base_host.CHECKS,
    *fabric.CHECKS,
    *storage.CHECKS,
    *slurm.CHECKS,
    *observe.CHECKS,
)

WATCHED_UNITS: tuple[str, ...] = (
    *base_host.UNITS,
    *fabric.UNITS,
    *storage.UNITS,
    *slurm.UNITS,
    *observe.UNITS,
)
"""Units whose state the probe is asked for; one a host lacks is reported as not found."""
