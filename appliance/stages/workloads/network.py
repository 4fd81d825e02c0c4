"""The NetworkPolicy of an add-on or project, which closes all pods except for the clients listed here."""

from appliance.models.site import Site
from appliance.stages.scheduler.queues.manifest import Manifest, manifest
from appliance.stages.scheduler.queues.namespaces import namespace_of
from appliance.stages.scheduler.queues.tree import leaf_name
from appliance.stages.scheduler.site import Project
from appliance.stages.workloads.notebooks import INTERACTIVE, NAMESPACE
from appliance.stages.workloads.releases import NAME as STAGE_NAME
from appliance.stages.workloads.releases import STAGE, section, wanted
from appliance.stages.workloads.serving import QUEUE_LABEL, project_of, queue_of
from appliance.stages.workloads.site import Addon as Section
from appliance.stages.workloads.site import ServingAddon, WorkloadsOptions
from appliance.stages.workloads.table import Addon

NAME = "appliance"
STORAGE = "appliance-storage"
NFS = 2049
API = "networking.k8s.io/v1"
NAMESPACE_LABEL = "kubernetes.io/metadata.name"
"""Label that the API server sets on every namespace (Kubernetes 1.21 and newer), so it cannot be forged."""
ENFORCING = ("calico", "cilium")
"""Networks that enforce policies; the CNI plugin bridge needs an additional program for that."""


def projects(site: Site) -> tuple[Project, ...]:
    """Return projects whose namespaces the appliance creates; Run:ai creates its own."""
    scheduler = site.scheduler
    return () if scheduler is None or scheduler.kind == "runai" else scheduler.projects


def users(site: Site, given: Section) -> tuple[Project, ...]:
    """Return projects whose pods may use an add-on: those it names, else the one of section workloads."""
    options = site.workloads or WorkloadsOptions()
    if not isinstance(given, ServingAddon):
        return ()
    if given.projects is not None:
        return tuple(p for p in projects(site) if p.name in given.projects)
    own = project_of(site, options)
    return (own,) if own else ()


def kept(site: Site) -> tuple[str, ...]:
    """Return services that only the network protects: add-ons without a login, and closed projects."""
    addons = [key for key, given in _serving(site) if not given.open_to_cluster]
    return (*addons, *(f"project {p.name}" for p in _closed(site)))


def project_policies(site: Site) -> tuple[Manifest, ...]:
    """Return a policy for each project that is not open to the whole cluster: Ray's dashboards and similar services have no login.

    None if the site's network does not enforce policies, because a project would look closed but be open.
    """
    options = site.workloads or WorkloadsOptions()
    # An operator asks the heads and schedulers it has made how far they are.
    operators = [_namespace(addon.namespace) for addon in wanted(site) if addon.holders]
    return tuple(
        _written(
            site,
            namespace_of(project.name),
            [
                {
                    "from": [
                        {"podSelector": {}},
                        *operators,
                        *_notebooks(site, options, project),
                        *(_namespace(name) for name in project.reached_from),
                    ]
                }
            ],
        )
        for project in _closed(site)
    )


def storage_policies(site: Site) -> tuple[Manifest, ...]:
    """Return a policy for each project of a site with shared storage: its pods reach every port except that of NFS.

    An export trusts addresses of hosts, and a pod's traffic has the address of its host: an NFS client in a container could
    use any uid. Kubelet mounts volumes, and policies do not apply to it. Not on an external cluster: a network that does
    not know ranges of ports (Cilium before 1.16) would close all others with it.
    """
    own, storage = site.kubernetes, site.storage
    if own is None or own.external is not None or not own.enforces_policies:
        return ()
    if storage is None or not (storage.exports or storage.external):
        return ()
    ports = [
        {"protocol": protocol, "port": first, "endPort": last}
        for protocol in ("TCP", "UDP")
        for first, last in ((1, NFS - 1), (NFS + 1, 65535))
    ]
    body = {"podSelector": {}, "policyTypes": ["Egress"], "egress": [{"ports": ports}]}
    return tuple(
        manifest(
            site.name,
            API,
            "NetworkPolicy",
            STORAGE,
            {"spec": body},
            namespace=namespace_of(project.name),
        )
        for project in projects(site)
    )


def _closed(site: Site) -> tuple[Project, ...]:
    own = site.kubernetes
    if own is not None and not own.enforces_policies:
        return ()
    return tuple(p for p in projects(site) if not p.open_to_cluster)


def policies(site: Site) -> tuple[Manifest, ...]:
    """Return a policy for each add-on of the site, in order."""
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
    return _written(site, addon.namespace, rules, {STAGE: STAGE_NAME})


def _written(
    site: Site, namespace: str, rules: list[Manifest], labels: dict[str, str] | None = None
) -> Manifest:
    # The API leaves an empty list away, and what is read back is compared with what was written.
    body = {"podSelector": {}, "policyTypes": ["Ingress"], **({"ingress": rules} if rules else {})}
    spec = {"spec": body}
    return manifest(site.name, API, "NetworkPolicy", NAME, spec, namespace=namespace, labels=labels)


def _users(site: Site, options: WorkloadsOptions, given: Section) -> list[Manifest]:
    chosen = users(site, given)
    found = [_namespace(namespace_of(project.name)) for project in chosen]
    return [*found, *(n for project in chosen for n in _notebooks(site, options, project))]


def _notebooks(site: Site, options: WorkloadsOptions, project: Project) -> list[Manifest]:
    """Select a project's notebooks in their hub's namespace by their queue."""
    if options.jupyter is None or project != project_of(site, options):
        return []
    queue = queue_of(project, options.jupyter.queue, INTERACTIVE)
    leaf = leaf_name(project.name, queue.name) if queue else ""
    return [{**_namespace(NAMESPACE), "podSelector": {"matchLabels": {QUEUE_LABEL: leaf}}}]


def _namespace(name: str) -> Manifest:
    return {"namespaceSelector": {"matchLabels": {NAMESPACE_LABEL: name}}}


def _ports(numbers: tuple[int, ...]) -> list[Manifest]:
    return [{"port": number, "protocol": "TCP"} for number in numbers]
