"""Variables of role scheduler: the releases that the first control host installs, and their sources."""

from appliance.errors import ConfigError
from appliance.stages.context import RoleContext, Variables
from appliance.stages.kubernetes.charts import arguments
from appliance.stages.kubernetes.variables import control_hosts
from appliance.stages.kubernetes.variables.releases import options
from appliance.stages.scheduler.queues.charts import releases
from appliance.stages.scheduler.queues.manifest import MANAGED_BY, OURS
from appliance.stages.scheduler.queues.network import policy
from appliance.stages.scheduler.site import SchedulerOptions

TABLE = "appliance/stages/scheduler/charts.yml"


def variables(context: RoleContext) -> Variables:
    """Return all variables of role scheduler. Raises ConfigError if no exact version of a chart is known, and for Run:ai."""
    site, profile = context.site, context.profile
    first = context.host.name == control_hosts(site)[0].name
    chosen = site.scheduler or SchedulerOptions()
    if chosen.runai is not None and chosen.runai.install is None:
        raise ConfigError(
            "scheduler.runai has no install, so Run:ai is installed by another program",
            "add scheduler.runai.install, or deploy the other stages (--until kubernetes), install Run:ai, and run appliance queue apply",
        )
    wanted = releases(site, profile, chosen)
    network = policy(site, profile, chosen)
    return {
        "scheduler_first": first,
        "scheduler_releases": [arguments(release, TABLE) for release in wanted] if first else [],
        "scheduler_mark": f"{MANAGED_BY}={OURS}",
        "scheduler_network": [network] if first and network else [],
        "scheduler_source": options(site).offline("charts"),
    }
