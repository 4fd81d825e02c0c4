"""Judgements of facts against expectations; one file per area. This tuple is the list of all checks."""

from appliance.checks import (
    base,
    containers,
    fabric,
    gpu,
    kubernetes,
    kubernetes_images,
    kubernetes_services,
    limits,
    mig,
    mig_demand,
    observe,
    scheduler,
    slurm,
    storage,
    workloads,
)
from appliance.checks.check import Check

HARDWARE: tuple[Check, ...] = tuple(c for c in gpu.CHECKS if c.id not in gpu.SOFTWARE)
"""What speaks of the machines themselves: judged on every look, whichever stages are finished."""

CHECKS: tuple[Check, ...] = (
    *gpu.CHECKS,
    *base.CHECKS,
    *mig.CHECKS,
    *mig_demand.CHECKS,
    *fabric.CHECKS,
    *storage.CHECKS,
    *kubernetes.CHECKS,
    *kubernetes_images.CHECKS,
    *kubernetes_services.CHECKS,
    *slurm.CHECKS,
    *containers.CHECKS,
    *scheduler.CHECKS,
    *workloads.CHECKS,
    *observe.CHECKS,
    *limits.CHECKS,
)

WATCHED_UNITS: tuple[str, ...] = (
    *gpu.UNITS,
    *base.UNITS,
    *mig.UNITS,
    *mig_demand.UNITS,
    *fabric.UNITS,
    *storage.UNITS,
    *kubernetes.UNITS,
    *slurm.UNITS,
    *observe.UNITS,
    *limits.UNITS,
)
"""Units whose state the probe is asked for; one a host lacks is reported as not found."""
