"""A project's namespace: how far pods may go there, who may work there, and what work there asks for by default."""

import base64
import json

from appliance.config.queues.limits import limits
from appliance.config.queues.manifest import Manifest, manifest
from appliance.config.queues.tree import leaf_name
from appliance.models.site import Site
from appliance.models.site_scheduler import Project, Queue

PREFIX = "kai-"
PULL_SECRET = "ngc"
NGC_KEY = "ngc_api_key"
NAME = "appliance"
MEMBERS = "appliance-members"
READERS = "appliance-queue-readers"
RBAC = "rbac.authorization.k8s.io/v1"

# What a member works with. No secrets, no roles, no quotas; pods/exec is how a notebook's terminal is reached.
VERBS = ["create", "delete", "get", "list", "patch", "update", "watch"]
WORK = (
    ("", ["configmaps", "persistentvolumeclaims", "pods", "services"]),
    ("apps", ["deployments", "statefulsets"]),
    ("batch", ["cronjobs", "jobs"]),
)
LOOK = (("", ["events", "pods/log", "resourcequotas"]), ("scheduling.run.ai", ["podgroups"]))
REACH = (("", ["pods/exec", "pods/portforward"]),)


def namespaces(site: Site, projects: tuple[Project, ...]) -> list[Manifest]:
    """Everything inside and around the projects' namespaces, namespaces first."""
    made = [_namespace(site, project) for project in projects]
    for project in projects:
        made += _inside(site, project)
    named = {project.name: namespace_of(project.name) for project in projects}
    return [*made, *_readers(site, projects), *limits(site, projects, named)]


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


def _namespace(site: Site, project: Project) -> Manifest:
    labels = {
        "pod-security.kubernetes.io/enforce": project.pod_security,
        "pod-security.kubernetes.io/audit": "restricted",
        "pod-security.kubernetes.io/warn": "restricted",
    }
    return manifest(site.name, "v1", "Namespace", namespace_of(project.name), labels=labels)


def _inside(site: Site, project: Project) -> list[Manifest]:
    space = namespace_of(project.name)
    # GPUs are no part of the quota: it would refuse a job that only has to wait.
    hard = {"pods": str(project.pods), "services.loadbalancers": "0", "services.nodeports": "0"}
    defaults = {queue.name: _defaults(project, queue) for queue in project.queues}
    found = [
        manifest(site.name, "v1", "ResourceQuota", NAME, {"spec": {"hard": hard}}, namespace=space),
        manifest(
            site.name, "v1", "ConfigMap", "appliance-queues", {"data": defaults}, namespace=space
        ),
    ]
    if NGC_KEY in site.secrets:
        body = {"imagePullSecrets": [{"name": PULL_SECRET}]}
        found.append(manifest(site.name, "v1", "ServiceAccount", "default", body, namespace=space))
    if subjects := _subjects(project):
        rules = [
            *({"apiGroups": [g], "resources": r, "verbs": VERBS} for g, r in WORK),
            *(
                {"apiGroups": [g], "resources": r, "verbs": ["get", "list", "watch"]}
                for g, r in LOOK
            ),
            *({"apiGroups": [g], "resources": r, "verbs": ["create"]} for g, r in REACH),
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


def _readers(site: Site, projects: tuple[Project, ...]) -> list[Manifest]:
    """Members see all queues, which are of no namespace, and change none."""
    subjects = [subject for project in projects for subject in _subjects(project)]
    own = list({(s["kind"], s["name"]): s for s in subjects}.values())
    if not own:
        return []
    rules = [
        {
            "apiGroups": ["scheduling.run.ai", "kai.scheduler", "scheduling.k8s.io"],
            "resources": ["queues", "topologies", "priorityclasses"],
            "verbs": ["get", "list", "watch"],
        }
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
