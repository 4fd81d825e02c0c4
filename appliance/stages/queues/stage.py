"""Stage ``queues``: the site's cluster gets the queues that the site describes."""

from appliance.models.site import Role, Site
from appliance.stages.limits.stage import STAGE as LIMITS
from appliance.stages.scheduler import stage as scheduler
from appliance.stages.stage import ClusterStage


def wanted(site: Site) -> bool:
    """Return whether the site has its own cluster, which stores the queues; Run:ai stores them in its control plane."""
    options = site.scheduler
    return options is not None and options.kind != "runai" and scheduler.wanted(site)


STAGE = ClusterStage(
    name="queues",
    title="Departments, projects and queues of the cluster",
    hosts=lambda site: site.with_role(Role.CONTROL)[:1],
    receipt="queues_brought",
    after=("kubernetes", "scheduler"),
    # The program that keeps limits of time gets its account with the queues.
    noticed_by=(LIMITS.name,),
    wanted=wanted,
)
