"""A project's namespace: pod security, members, and default requests."""

import base64
import json
from collections.abc import Mapping

from appliance.models.profile import Profile
from appliance.models.site import Site
from appliance.stages.scheduler.queues.bounds import (
    POD_CPU,
    cpu,
    fairness,
    limit_range,
    quota,
    sizes,
)
from appliance.stages.scheduler.queues.limits import limits
from appliance.stages.scheduler.queues.manifest import Manifest, manifest
from appliance.stages.scheduler.queues.tenant_volumes import PULL_SECRET
from appliance.stages.scheduler.queues.tenants import kept_by, labels_of
from appliance.stages.scheduler.queues.tree import leaf_name
from appliance.stages.scheduler.queues.trees import people, trees
from appliance.stages.scheduler.site import Project, Queue, SchedulerOptions
from appliance.stages.workloads.releases import wanted

PREFIX = "kai-"
NGC_KEY = "ngc_api_key"
MEMBERS = "appliance-members"
READERS = "appliance-queue-readers"
SPARK = "spark"
RBAC = "rbac.authorization.k8s.io/v1"

# What a member works with. No roles, no quotas; pods/exec is how a notebook's terminal is reached.
VERBS = ["create", "delete", "get", "list", "patch", "update", "watch"]
WORK = (
    ("", ["configmaps", "persistentvolumeclaims", "pods", "services"]),
    (
        "apps",
        [
            *("deployments", "deployments/scale", "replicasets", "replicasets/scale"),
            *("statefulsets", "statefulsets/scale"),
        ],
    ),
    ("autoscaling", ["horizontalpodautoscalers"]),
    ("batch", ["cronjobs", "jobs"]),
)
KEPT = (
    ("", ["secrets"], ["create", "delete", "update"]),
    ("", ["pods/ephemeralcontainers"], ["patch", "update"]),
    ("policy", ["poddisruptionbudgets"], VERBS),
)
"""Rights of members if policies are enforced. Members write Secrets, but do not read them: RBAC cannot exclude one name from a list,
and the pull secret is next to theirs. They do not patch them: a JSON patch that copies data into a label is refused with that data in the
message, before policies run (Kubernetes 1.35.4). No Ingress or HTTPRoute: its author could choose another project's host name."""
LOOK = (
    ("", ["events", "limitranges", "namespaces", "pods/log", "resourcequotas"]),
    ("apps", ["controllerrevisions"]),
    ("discovery.k8s.io", ["endpointslices"]),
    ("metrics.k8s.io", ["pods"]),
    ("scheduling.run.ai", ["podgroups"]),
)
"""namespaces: its own, whose labels list its queues and classes. The others serve kubectl rollout history, describe and top."""
REACH = (("", ["pods/attach", "pods/exec", "pods/portforward"]),)
OPEN = ["create", "get"]
"""Over a WebSocket it is a GET, as current clients ask; from Kubernetes 1.35 on that takes both (KEP 4006)."""


def namespaces(
    site: Site, profile: Profile, options: SchedulerOptions, of_a_pod: Mapping[str, float]
) -> list[Manifest]:
    """Everything inside and around the projects' namespaces, namespaces first.

    ``of_a_pod``: cores that each pod of a project requests at least.
    """
    projects = options.projects
    made = [_namespace(site, project, of_a_pod[project.name]) for project in projects]
    deny = options.admission == "deny"
    # Policies keep what RBAC cannot: that nobody reads the pull secret through a right to make secrets.
    kept = deny and kept_by(site, profile)
    own = sizes(site.profiles(profile))
    for project in projects:
        least = of_a_pod[project.name]
        made.append(limit_range(site, namespace_of(project.name), own, deny, least))
        made += _inside(site, project, kept)
    named = {project.name: namespace_of(project.name) for project in projects}
    around = [*_readers(site, projects), *limits(site, projects, named)]
    return [*made, *around, *(fairness(site, projects, named) if kept_by(site, profile) else ())]


def shared_trees(site: Site, options: SchedulerOptions) -> list[Manifest]:
    """Volumes and claims of all projects."""
    return [
        made
        for project in options.projects
        for made in trees(site, project, namespace_of(project.name))
    ]


def pull_secrets(site: Site, key: str) -> list[Manifest]:
    """NGC's API key as pods present it, one per namespace. Its digest is of everything but the key."""
    login = {"username": "$oauthtoken", "password": key, "auth": _encoded(f"$oauthtoken:{key}")}
    data = {".dockerconfigjson": _encoded(json.dumps({"auths": {"nvcr.io": login}}))}
    projects = site.scheduler.projects if site.scheduler else ()
    return [
        {
            **manifest(
                site.name,
                "v1",
                "Secret",
                PULL_SECRET,
                {"type": "kubernetes.io/dockerconfigjson"},
                namespace=namespace_of(project.name),
            ),
            "data": data,
        }
        for project in projects
    ]


def namespace_of(project: str) -> str:
    """The namespace of a project; KAI's resource management calls it the same."""
    return PREFIX + project


def _namespace(site: Site, project: Project, least: float) -> Manifest:
    labels = {
        "pod-security.kubernetes.io/enforce": project.pod_security,
        "pod-security.kubernetes.io/audit": "restricted",
        "pod-security.kubernetes.io/warn": "restricted",
        **labels_of(project),
    }
    made = manifest(site.name, "v1", "Namespace", namespace_of(project.name), labels=labels)
    made["metadata"]["annotations"] |= people(site, project)
    if least:
        made["metadata"]["annotations"][POD_CPU] = cpu(least)
    return made


def _inside(site: Site, project: Project, kept: bool) -> list[Manifest]:
    space = namespace_of(project.name)
    defaults = {queue.name: _defaults(project, queue) for queue in project.queues}
    queues = {"data": defaults}
    found = [
        manifest(site.name, "v1", "ConfigMap", "appliance-queues", queues, namespace=space),
        # After what it would count, so that a namespace that is full cannot keep it out.
        quota(site, project, space, _holders(site)),
    ]
    # Without a key, too: a name of a secret that is gone would give each pod a warning.
    body = {"imagePullSecrets": [{"name": PULL_SECRET}]} if NGC_KEY in site.secrets else None
    found.append(manifest(site.name, "v1", "ServiceAccount", "default", body, namespace=space))
    if site.workloads and site.workloads.spark_operator:
        found += _driver(site, space)
    if subjects := _subjects(project):
        rules = [
            *({"apiGroups": [g], "resources": r, "verbs": VERBS} for g, r in WORK),
            *({"apiGroups": [g], "resources": r, "verbs": v} for g, r, v in KEPT if kept),
            *({"apiGroups": [g], "resources": r, "verbs": VERBS} for g, r in _kinds(site)),
            *(
                {"apiGroups": [g], "resources": r, "verbs": ["get", "list", "watch"]}
                for g, r in LOOK
            ),
            *({"apiGroups": [g], "resources": r, "verbs": OPEN} for g, r in REACH),
        ]
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": MEMBERS}
        found += [
            manifest(site.name, RBAC, "Role", MEMBERS, {"rules": rules}, namespace=space),
            manifest(
                site.name,
                RBAC,
                "RoleBinding",
                MEMBERS,
                {"roleRef": role, "subjects": subjects},
                namespace=space,
            ),
        ]
    return found


def _kinds(site: Site) -> list[tuple[str, list[str]]]:
    """Operators for users: one resource of each of their API groups."""
    held = [holder.partition(".") for holder in _holders(site)]
    return [(group, [resource]) for resource, _, group in held]


def _holders(site: Site) -> list[str]:
    return [holder for addon in wanted(site) for holder in addon.holders]


def _driver(site: Site, space: str) -> list[Manifest]:
    """The account of Spark's drivers, which make their executors; nothing that a member may not do (Spark 4.0, RBAC)."""
    resources = ["configmaps", "persistentvolumeclaims", "pods", "services"]
    rules = [{"apiGroups": [""], "resources": resources, "verbs": [*VERBS, "deletecollection"]}]
    group = "rbac.authorization.k8s.io"
    pull = {"imagePullSecrets": [{"name": PULL_SECRET}]} if NGC_KEY in site.secrets else None
    bound = {
        "roleRef": {"apiGroup": group, "kind": "Role", "name": SPARK},
        "subjects": [{"kind": "ServiceAccount", "name": SPARK, "namespace": space}],
    }
    return [
        manifest(site.name, "v1", "ServiceAccount", SPARK, pull, namespace=space),
        manifest(site.name, RBAC, "Role", SPARK, {"rules": rules}, namespace=space),
        manifest(site.name, RBAC, "RoleBinding", SPARK, bound, namespace=space),
    ]


def _readers(site: Site, projects: tuple[Project, ...]) -> list[Manifest]:
    """Members see all queues and storage classes, which are of no namespace, and change none."""
    subjects = [subject for project in projects for subject in _subjects(project)]
    own = list({(s["kind"], s["name"]): s for s in subjects}.values())
    if not own:
        return []
    look = ["get", "list", "watch"]
    rules = [
        {
            "apiGroups": ["scheduling.run.ai", "kai.scheduler", "scheduling.k8s.io"],
            "resources": ["queues", "topologies", "priorityclasses"],
            "verbs": look,
        },
        # A claim names one of them.
        {"apiGroups": ["storage.k8s.io"], "resources": ["storageclasses"], "verbs": look},
    ]
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": READERS}
    return [
        manifest(site.name, RBAC, "ClusterRole", READERS, {"rules": rules}),
        manifest(
            site.name,
            RBAC,
            "ClusterRoleBinding",
            READERS,
            {"roleRef": role, "subjects": sorted(own, key=lambda s: (s["kind"], s["name"]))},
        ),
    ]


def _subjects(project: Project) -> list[dict[str, str]]:
    named = [("Group", name) for name in project.groups] + [("User", n) for n in project.users]
    group = "rbac.authorization.k8s.io"
    return [{"apiGroup": group, "kind": kind, "name": name} for kind, name in named]


def _defaults(project: Project, queue: Queue) -> str:
    """What templates read: one line of JSON per queue."""
    given = {
        "queue": leaf_name(project.name, queue.name),
        "work": queue.work,
        "priorityClassName": queue.priority_class or queue.work,
        "gpuFraction": queue.fraction,
        "timeLimit": queue.time_limit,
        "idleLimit": queue.idle_limit,
    }
    return json.dumps({key: v for key, v in given.items() if v is not None}, sort_keys=True)


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
