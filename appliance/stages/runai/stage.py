"""Stage ``runai``: Run:ai's control plane, the registration of the cluster, and its engine, in their documented order."""

from appliance.models.site import Role, Site
from appliance.stages.scheduler import stage as scheduler
from appliance.stages.stage import ClusterStage


def wanted(site: Site) -> bool:
    """Whether the site installs Run:ai on its own cluster."""
    runai = site.scheduler.runai if site.scheduler else None
    return runai is not None and runai.install is not None and scheduler.wanted(site)


STAGE = ClusterStage(
    name="runai",
    title="Run:ai: control plane, registration, cluster engine",
    hosts=lambda site: site.with_role(Role.CONTROL)[:1],
    receipt="runai_installed",
    # Its databases need the StorageClass that stage workloads brings.
    after=("kubernetes", "scheduler", "workloads"),
    wanted=wanted,
)
