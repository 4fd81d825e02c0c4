"""All stages in their order, and the lists that follow from their declarations."""

from appliance.bmc.checks import CHECKS as CONTROLLER_CHECKS
from appliance.checks.causes import Cause, Causes
from appliance.checks.check import AnyCheck, Check, Nature
from appliance.stages import parts
from appliance.stages.stage import ClusterStage, Stage

EVERY_STAGE: tuple[Stage | ClusterStage, ...] = tuple(part.STAGE for part in parts("stage"))
STAGES: tuple[Stage, ...] = tuple(s for s in EVERY_STAGE if isinstance(s, Stage))
CLUSTER_STAGES: tuple[ClusterStage, ...] = tuple(s for s in EVERY_STAGE if not isinstance(s, Stage))
CHECKS: tuple[Check, ...] = tuple(check for stage in EVERY_STAGE for check in stage.judges)
EVERY_CHECK: tuple[AnyCheck, ...] = (*CHECKS, *CONTROLLER_CHECKS)
"""Those of stages, and those of management controllers, which need no stage and no system."""
HARDWARE: tuple[Check, ...] = tuple(c for c in CHECKS if c.nature is Nature.HARDWARE)
"""Checks of the machines, judged on every look, independent of finished stages."""
CAUSES: Causes = {
    check.id: (
        *check.causes,
        *(
            Cause(other.id, effect.because, effect.reach, effect.when)
            for other in CHECKS
            for effect in other.explains
            if other is not check and effect.concerns(check.id)
        ),
    )
    for check in CHECKS
}
"""The causes of each check: its own, then those that others declare for it."""
WATCHED_UNITS: tuple[str, ...] = tuple(dict.fromkeys(u for stage in STAGES for u in stage.units))
"""Units whose state the probe reads; a missing one is reported as not found."""
