"""Stage ``limits``: interactive work ends at its time limit, and work whose GPUs are idle."""

from appliance.models.site import Role, Site
from appliance.stages.context import RoleContext, Variables
from appliance.stages.limits.checks import CHECKS, UNITS
from appliance.stages.limits.restarts import RESTARTS
from appliance.stages.limits.variables import variables
from appliance.stages.stage import Stage


def wanted(site: Site) -> bool:
    """Return whether the site has its own cluster with queues; Run:ai has such limits itself."""
    own = site.kubernetes is not None and site.kubernetes.external is None
    return own and site.scheduler is not None and site.scheduler.kind != "runai"


def _variables(context: RoleContext) -> Variables:
    """Return the role's variables, including whether it is removed."""
    return {"limits_state": "present" if wanted(context.site) else "absent", **variables(context)}


STAGE = Stage(
    name="limits",
    title="Limits of time for work on Kubernetes",
    roles=frozenset({Role.CONTROL}),
    after=("base", "kubernetes", "observe"),
    ansible_roles=("limits",),
    variables=_variables,
    judges=CHECKS,
    units=UNITS,
    minutes=0.2,
    wanted=wanted,
    removable=True,
    checks_removal=False,
    restarts=RESTARTS,
)
