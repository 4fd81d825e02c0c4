"""What the program that keeps limits of time finds in the cluster: its home, its rights, and the limits themselves."""

import json

from appliance.config.queues.manifest import Manifest, manifest
from appliance.config.queues.tree import leaf_name
from appliance.models.site import Site
from appliance.models.site_scheduler import Project

HOME = "appliance-limits"
MARK = "appliance/limits"
RBAC = "rbac.authorization.k8s.io/v1"
LIST = ["get", "list"]

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
IN_PROJECTS = (
    {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": [*LIST, "delete"]},
    {"apiGroups": [""], "resources": ["events"], "verbs": ["create"]},
    {
        "apiGroups": ["apps"],
        "resources": ["deployments", "replicasets", "statefulsets"],
        "verbs": ["get"],
    },
    {
        "apiGroups": ["apps"],
        "resources": [f"{kind}/scale" for kind in ("deployments", "replicasets", "statefulsets")],
        "verbs": ["patch"],
    },
    {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["get", "patch"]},
)
"""Nothing is read that a person could keep a secret in, and nothing is made but events."""


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
    return made


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
