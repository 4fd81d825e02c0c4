"""Stage ``validate``: the benchmarks of a deployment, by jobs on the cluster."""

from appliance.models.site import Host, Role, Site
from appliance.stages.stage import ClusterStage


def hosts(site: Site) -> tuple[Host, ...]:
    """Return hosts on which jobs run, and hosts from which jobs are submitted."""
    return tuple(h for h in site.hosts if not {Role.CONTROL, Role.GPU}.isdisjoint(h.roles))


STAGE = ClusterStage(
    name="validate",
    title="Benchmarks of the cluster",
    hosts=hosts,
    receipt="validated",
    measures=True,
)
