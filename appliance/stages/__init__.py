"""The stages of a deployment, in their order; one file per stage."""

from appliance.stages import (
    base,
    fabric,
    gpu,
    kubernetes,
    limits,
    mig,
    observe,
    scheduler,
    slurm,
    storage,
    workloads,
)
from appliance.stages.stage import Stage

STAGES: tuple[Stage, ...] = (
    base.STAGE,
    gpu.STAGE,
    mig.STAGE,
    fabric.STAGE,
    storage.STAGE,
    kubernetes.STAGE,
    slurm.STAGE,
    scheduler.STAGE,
    workloads.STAGE,
    observe.STAGE,
    limits.STAGE,
)
