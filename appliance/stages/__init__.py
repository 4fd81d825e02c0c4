"""The stages of a deployment, in their order; one file per stage."""

from appliance.stages import base_stage, fabric, observe, slurm, storage
from appliance.stages.base import Stage

STAGES: tuple[Stage, ...] = (
    base_stage.STAGE,
    fabric.STAGE,
    storage.STAGE,
    slurm.STAGE,
    observe.STAGE,
)
