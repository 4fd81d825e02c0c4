"""Objects of the program that enforces time limits: its namespace, rights and limits."""

import json

from appliance.models.site import Site
from appliance.stages.mig.layouts import demands
from appliance.stages.scheduler.queues.manifest import Manifest, manifest
from appliance.stages.scheduler.queues.tree import leaf_name
from appliance.stages.scheduler.site import NodePool, Project

HOME = "appliance-limits"
MARK = "appliance/limits"
RBAC = "rbac.authorization.k8s.io/v1"
LIST = ["get", "list"]
OWNERS = ["deployments", "replicasets", "statefulsets"]

AT_HOME = (
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": LIST},
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]},
    {
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "resourceNames": [HOME],
        "verbs": ["get", "update"],
    },
)
EVERYWHERE = (
    {"apiGroups": [""], "resources": ["namespaces", "pods"], "verbs": ["list"]},
    {"apiGroups": ["apps"], "resources": OWNERS, "verbs": ["list"]},
    {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["list"]},
)
"""One list of each kind in place of one in each project: RBAC knows no list of some namespaces."""
IN_PROJECTS = (
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "delete"]},
    {"apiGroups": [""], "resources": ["events"], "verbs": ["create"]},
    {"apiGroups": ["apps"], "resources": OWNERS, "verbs": ["get"]},
    {"apiGroups": ["apps"], "resources": [f"{kind}/scale" for kind in OWNERS], "verbs": ["patch"]},
    {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["get", "patch"]},
)
"""Nothing is read that is made to keep a secret in, and nothing is made but events."""
LISTS = f"{HOME}-lists"


ON_DEMAND = "appliance-mig"
"""The ConfigMap of hosts whose GPUs are divided on demand, and the right to wish something of these hosts."""


def limits(site: Site, projects: tuple[Project, ...], namespaces: dict[str, str]) -> list[Manifest]:
    """Home and rights first, then per project (``namespaces`` by its name) the binding and its limits."""
    account = {"kind": "ServiceAccount", "name": HOME, "namespace": HOME}
    role = {"apiGroup": "rbac.authorization.k8s.io", "name": HOME}
    bound = {"subjects": [account]}
    made = [
        manifest(
            site.name,
            "v1",
            "Namespace",
            HOME,
            labels={MARK: "true", "pod-security.kubernetes.io/enforce": "restricted"},
        ),
        manifest(site.name, "v1", "ServiceAccount", HOME, namespace=HOME),
        manifest(site.name, RBAC, "Role", HOME, {"rules": list(AT_HOME)}, namespace=HOME),
        manifest(
            site.name,
            RBAC,
            "RoleBinding",
            HOME,
            {"roleRef": {**role, "kind": "Role"}, **bound},
            namespace=HOME,
        ),
        manifest(site.name, RBAC, "ClusterRole", HOME, {"rules": list(IN_PROJECTS)}),
        manifest(site.name, RBAC, "ClusterRole", LISTS, {"rules": list(EVERYWHERE)}),
        manifest(
            site.name,
            RBAC,
            "ClusterRoleBinding",
            LISTS,
            {"roleRef": {**role, "kind": "ClusterRole", "name": LISTS}, **bound},
        ),
    ]
    for project in projects:
        space = namespaces[project.name]
        cluster_role: dict[str, object] = {"roleRef": {**role, "kind": "ClusterRole"}, **bound}
        made += [
            manifest(site.name, RBAC, "RoleBinding", HOME, cluster_role, namespace=space),
            manifest(
                site.name,
                "v1",
                "ConfigMap",
                space,
                {"data": lines} if (lines := _limits(project)) else {},
                namespace=HOME,
                labels={MARK: "true"},
            ),
        ]
    return made + _on_demand(site, account)


def _on_demand(site: Site, account: dict[str, str]) -> list[Manifest]:
    """Per pool its hosts and profiles, and the right to annotate these hosts, and to list all: RBAC knows no smaller ones."""
    if not demands(site):
        return []
    pools = [p for p in (site.scheduler.node_pools if site.scheduler else ()) if p.mig_on_demand]
    hosts = [host for pool in pools for host in pool.hosts]
    lines = {pool.name: json.dumps(_pool(site, pool), sort_keys=True) for pool in pools}
    nodes = {"apiGroups": [""], "resources": ["nodes"], "resourceNames": hosts}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": ON_DEMAND}
    bound: dict[str, object] = {"roleRef": role, "subjects": [account]}
    everywhere = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]}
    rules = [{**nodes, "verbs": ["get", "patch"]}, everywhere]
    return [
        manifest(site.name, "v1", "ConfigMap", ON_DEMAND, {"data": lines}, namespace=HOME),
        manifest(site.name, RBAC, "ClusterRole", ON_DEMAND, {"rules": rules}),
        manifest(site.name, RBAC, "ClusterRoleBinding", ON_DEMAND, bound),
    ]


def _pool(site: Site, pool: NodePool) -> dict[str, object]:
    projects = site.scheduler.projects if site.scheduler else ()
    queues = [leaf_name(p.name, q.name) for p in projects for q in p.queues if q.pool == pool.name]
    return {"hosts": pool.hosts, "profiles": pool.mig_on_demand, "queues": queues}


def _limits(project: Project) -> dict[str, str]:
    """A line of JSON per queue that has a limit."""
    found = {}
    for queue in project.queues:
        given = {"timeLimit": queue.time_limit, "idleLimit": queue.idle_limit}
        if any(given.values()):
            told = {k: v for k, v in given.items() if v is not None}
            name = leaf_name(project.name, queue.name)
            found[queue.name] = json.dumps({"queue": name, **told}, sort_keys=True)
    return found
