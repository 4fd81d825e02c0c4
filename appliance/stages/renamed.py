"""Ids that checks had in earlier versions, which waivers and journals still contain."""

from appliance.stages.kubernetes import ids
from appliance.stages.kubernetes.charts import GPU_OPERATOR

RENAMED = {
    ("scheduler.gpus", ""): ids.GPUS,
    ("scheduler.pods", GPU_OPERATOR): ids.GPU_PODS,
    ("scheduler.releases", GPU_OPERATOR): ids.RELEASES,
}
"""Today's id by the id of an earlier version and the part of the target; "" stands for all targets."""


def current(check: str, target: str = "") -> str:
    """Return today's id of the check that found something on this target."""
    part = target.partition("/")[2]
    return RENAMED.get((check, part)) or RENAMED.get((check, ""), check)
