"""Test submissions: a small pod of a member of each project through its first queue, which the API judges but does not create."""

import json

from appliance.models.site import Site
from appliance.stages.scheduler.queues.kai import POOL_LABEL
from appliance.stages.scheduler.queues.namespaces import namespace_of
from appliance.stages.scheduler.queues.tenant_queues import QUEUE, SCHEDULER
from appliance.stages.scheduler.queues.tree import leaf_name
from appliance.stages.scheduler.site import DEFAULT_POOL, Project, SchedulerOptions

MOST = 50
"""Maximum number of projects tested, because each costs the API one request."""
NAME = "member-look"
IMAGE = "member-look"
"""Image of the pod; never pulled, because the pod is not created."""
NOBODY = 65534
SOMEONE = "appliance:look"
"""User for a project that lists only groups."""


def projects_of(site: Site) -> tuple[Project, ...]:
    """Return projects with members, if the site has its own cluster with KAI."""
    options = site.scheduler
    if options is None or options.kind != "kai" or site.kubernetes is None or site.external_cluster:
        return ()
    return tuple(p for p in options.projects if p.users or p.groups)[:MOST]


def submissions_of(site: Site) -> dict[str, list[str]]:
    """Return by namespace the user, the group or "", and the pod as JSON, for the probe's request to the API."""
    options = site.scheduler
    return {
        namespace_of(project.name): [
            *((project.users[0], "") if project.users else (SOMEONE, project.groups[0])),
            json.dumps(_pod(options, project), separators=(",", ":")),
        ]
        for project in projects_of(site)
        if options is not None
    }


def _pod(options: SchedulerOptions, project: Project) -> dict[str, object]:
    queue = project.queues[0]
    labels = {QUEUE: leaf_name(project.name, queue.name)}
    if queue.pool != DEFAULT_POOL:
        labels[POOL_LABEL] = queue.pool
    known = {one.name for one in options.priorities}
    priority = queue.priority_class or queue.work
    container = {
        "name": "look",
        "image": IMAGE,
        "resources": {"limits": {"cpu": "100m", "memory": "64Mi"}},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": NAME, "labels": labels},
        "spec": {
            "schedulerName": SCHEDULER,
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            **({"priorityClassName": priority} if priority in known else {}),
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": NOBODY,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [container],
        },
    }
