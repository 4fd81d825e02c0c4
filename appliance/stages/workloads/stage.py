"""Stage ``workloads``: add-ons for users of the site's own cluster, by Helm."""

from appliance.models.site import Role, Site
from appliance.stages.kubernetes import stage as kubernetes
from appliance.stages.stage import Stage
from appliance.stages.workloads.checks import CHECKS
from appliance.stages.workloads.restarts import RESTARTS
from appliance.stages.workloads.variables import variables


def wanted(site: Site) -> bool:
    """Return whether the site has add-ons on its own cluster."""
    return site.workloads is not None and kubernetes.wanted(site)


STAGE = Stage(
    name="workloads",
    title="Workloads: volumes, job operators, notebooks, serving",
    roles=frozenset({Role.CONTROL}),
    after=("kubernetes", "scheduler"),
    ansible_roles=("workloads",),
    variables=variables,
    judges=CHECKS,
    minutes=5.0,
    wanted=wanted,
    removable=True,
    restarts=RESTARTS,
    within=kubernetes.STAGE,
)
