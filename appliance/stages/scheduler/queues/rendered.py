"""Everything the site's scheduler section comes to: resources, labels of hosts, charts with their values."""

from dataclasses import dataclass

from appliance.errors import ConfigError
from appliance.models.profile import Profile
from appliance.models.site import Site
from appliance.stages.kubernetes.charts import Release, suited
from appliance.stages.scheduler.queues import kai
from appliance.stages.scheduler.queues.charts import releases
from appliance.stages.scheduler.queues.manifest import Manifest, digest, documents, text
from appliance.stages.scheduler.queues.namespaces import namespaces, shared_trees
from appliance.stages.scheduler.queues.tenants import kept_by, tenants
from appliance.stages.scheduler.queues.tree import Sizes, of_a_gpu, of_a_pod
from appliance.stages.workloads.network import project_policies, storage_policies


@dataclass(frozen=True)
class Rendered:
    """``resources`` in the order they are applied; ``node_labels`` by host; ``pool_label``: what no other host has."""

    resources: tuple[Manifest, ...]
    node_labels: dict[str, dict[str, str]]
    charts: tuple[Release, ...]
    pool_label: str

    @property
    def digest(self) -> str:
        """Of all of it: the same site and profile always come to the same."""
        return digest([list(self.resources), self.node_labels, [c.values for c in self.charts]])

    def files(self) -> dict[str, str]:
        """What ``queue render`` writes, by path."""
        listed = [chart.model_dump(mode="json") for chart in self.charts]
        found = {
            "resources.yml": documents(list(self.resources)),
            "node-labels.yml": text(self.node_labels),
            "charts.yml": text({"charts": listed, "digest": self.digest}),
        }
        return {**found, **{chart.values_file: text(chart.values) for chart in self.charts}}


def rendered(site: Site, profile: Profile, nodes_have: Sizes | None = None) -> Rendered:
    """The site's queues as Kubernetes takes them. Raises ConfigError where the site has none.

    ``nodes_have``: cores and GB of the cluster's nodes by name, where it was contacted.
    """
    options = site.scheduler
    if options is None:
        raise ConfigError(
            f"site {site.name} has no scheduler section",
            "describe its queues under scheduler, as docs/queues.md shows",
        )
    made: list[Manifest] = []
    if options.kind != "runai":
        own = kai.kai if options.kind == "kai" else kai.resource_management
        made = [
            *kai.priority_classes(site, options),
            *kai.topology(site, profile, options),
            *namespaces(site, profile, options, of_a_pod(site, profile, options, nodes_have)),
            *project_policies(site),
            *storage_policies(site),
            *(tenants(site, profile, options) if kept_by(site, profile) else ()),
            *own(site, options, of_a_gpu(site, profile, options, nodes_have)),
            # Last: what a pod may do with them is judged by then.
            *shared_trees(site, options),
        ]
    labels, pool_label = kai.node_labels(options), kai.pool_label(options)
    charts = (*suited(site, profile), *releases(site, profile, options))
    return Rendered(tuple(made), labels, charts, pool_label)
