"""Stage ``runai``: Run:ai's control plane, the registration of the cluster, and its engine, in their documented order."""

from appliance.models.site import Role
from appliance.stages.runai.checks import CHECKS
from appliance.stages.runai.values import wanted
from appliance.stages.stage import ClusterStage

STAGE = ClusterStage(
    name="runai",
    title="Run:ai: control plane, registration, cluster engine",
    hosts=lambda site: site.with_role(Role.CONTROL)[:1],
    receipt="runai_installed",
    # Its databases need the StorageClass that stage workloads brings.
    after=("kubernetes", "scheduler", "workloads"),
    wanted=wanted,
    judges=CHECKS,
)
