"""Stage ``scheduler``: the operators and the scheduler of a cluster of the site's own making, by Helm."""

from appliance.models.site import Role, Site
from appliance.stages.kubernetes import stage as kubernetes
from appliance.stages.scheduler.checks import CHECKS
from appliance.stages.scheduler.restarts import RESTARTS
from appliance.stages.scheduler.variables import variables
from appliance.stages.stage import Stage


def wanted(site: Site) -> bool:
    """Whether the site has a scheduler on its own cluster."""
    return site.scheduler is not None and kubernetes.wanted(site)


STAGE = Stage(
    name="scheduler",
    title="Scheduler of Kubernetes: operators, KAI or Run:ai",
    roles=frozenset({Role.CONTROL}),
    after=("kubernetes",),
    ansible_roles=("scheduler",),
    variables=variables,
    judges=CHECKS,
    minutes=5.0,
    wanted=wanted,
    restarts=RESTARTS,
    within=kubernetes.STAGE,
)
