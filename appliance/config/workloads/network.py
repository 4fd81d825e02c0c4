"""Who reaches an add-on: one NetworkPolicy in each namespace, which closes all its pods but for what is named here."""

from appliance.config.queues.manifest import Manifest, manifest
from appliance.config.queues.namespaces import namespace_of
from appliance.config.queues.tree import leaf_name
from appliance.config.workloads.notebooks import INTERACTIVE, NAMESPACE
from appliance.config.workloads.releases import section, wanted
from appliance.config.workloads.serving import QUEUE_LABEL, project_of, queue_of
from appliance.config.workloads.table import Addon
from appliance.models.site import Site
from appliance.models.site_scheduler import Project
from appliance.models.site_workloads import Addon as Section
from appliance.models.site_workloads import ServingAddon, WorkloadsOptions

NAME = "appliance"
API = "networking.k8s.io/v1"
NAMESPACE_LABEL = "kubernetes.io/metadata.name"
"""The API server itself gives it to every namespace (Kubernetes 1.21 and newer), so nobody can take another's."""
ENFORCING = ("calico", "cilium")
"""Of the networks a cluster may have; CNI's plugin bridge takes no notice of policies."""


def projects(site: Site) -> tuple[Project, ...]:
    """Those with a namespace of ours: Run:ai makes its own."""
    scheduler = site.scheduler
    return () if scheduler is None or scheduler.kind == "runai" else scheduler.projects


def users(site: Site, given: Section) -> tuple[Project, ...]:
    """Projects whose pods may use it: those it names, else the one of the section workloads."""
    options = site.workloads or WorkloadsOptions()
    if not isinstance(given, ServingAddon):
        return ()
    if given.projects is not None:
        return tuple(p for p in projects(site) if p.name in given.projects)
    own = project_of(site, options)
    return (own,) if own else ()


def opens(site: Site) -> tuple[str, ...]:
    """Add-ons that ask nobody who he is, so that only the network keeps others out, by key; not those the site opens."""
    return tuple(key for key, given in _serving(site) if not given.open_to_cluster)


def policies(site: Site) -> tuple[Manifest, ...]:
    """One for each add-on of the site, in their order."""
    options = site.workloads
    return tuple(_policy(site, options, addon) for addon in wanted(site)) if options else ()


def _serving(site: Site) -> tuple[tuple[str, ServingAddon], ...]:
    options = site.workloads or WorkloadsOptions()
    found = ((addon.key, section(options, addon)) for addon in wanted(site))
    return tuple((key, given) for key, given in found if isinstance(given, ServingAddon))


def _policy(site: Site, options: WorkloadsOptions, addon: Addon) -> Manifest:
    given = section(options, addon)
    assert given is not None
    rules: list[Manifest] = []
    if addon.api_ports:
        rules.append({"ports": _ports(addon.api_ports)})
    sources = [*_users(site, options, given), *(_namespace(name) for name in given.reached_from)]
    if isinstance(given, ServingAddon) and given.open_to_cluster:
        sources = [{"namespaceSelector": {}}]
    if sources:
        ports = {"ports": _ports(addon.user_ports)} if addon.user_ports else {}
        rules.append({"from": sources, **ports})
    # The API leaves an empty list away, and what is read back is compared with what was written.
    body = {"podSelector": {}, "policyTypes": ["Ingress"], **({"ingress": rules} if rules else {})}
    return manifest(
        site.name, API, "NetworkPolicy", NAME, {"spec": body}, namespace=addon.namespace
    )


def _users(site: Site, options: WorkloadsOptions, given: Section) -> list[Manifest]:
    """Namespaces of projects; and notebooks, which lie in their hub's, by the queue they wait in."""
    chosen = users(site, given)
    found = [_namespace(namespace_of(project.name)) for project in chosen]
    own = project_of(site, options)
    if own in chosen and own and options.jupyter:
        queue = queue_of(own, options.jupyter.queue, INTERACTIVE)
        leaf = leaf_name(own.name, queue.name) if queue else ""
        pods = {"podSelector": {"matchLabels": {QUEUE_LABEL: leaf}}}
        found.append({**_namespace(NAMESPACE), **pods})
    return found


def _namespace(name: str) -> Manifest:
    return {"namespaceSelector": {"matchLabels": {NAMESPACE_LABEL: name}}}


def _ports(numbers: tuple[int, ...]) -> list[Manifest]:
    return [{"port": number, "protocol": "TCP"} for number in numbers]
