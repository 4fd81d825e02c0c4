"""Limits of a project on hosts and the API server: container sizes, object counts, request priority."""

from collections.abc import Sequence
from dataclasses import dataclass

from appliance.models.profile import Profile
from appliance.models.site import Site
from appliance.stages.scheduler.queues.manifest import Manifest, manifest
from appliance.stages.scheduler.site import Project

NAME = "appliance"
MEMBERS = "appliance-members"
FLOW = "flowcontrol.apiserver.k8s.io/v1"

RATIO = {"memory": 4, "ephemeral-storage": 16}
"""The largest ratio of limit to request. Under pressure, the kernel and kubelet first end work that exceeds its request, so work
with correct requests survives. More pods share a disk than a host's memory."""

POD_CPU = "appliance/pod-cpu"
"""Annotation of a project's namespace: the CPU that each pod requests at least."""
LEAST_CPU = 0.05
"""Cores that a container without a request of its own requests at least."""

SLICES = "count/endpointslices.discovery.k8s.io"
"""Their controller creates one for each hundred pods of a service, and one for each pod with its own numbers of named ports."""
LARGEST_SLICE = 48 * 1024
"""Bytes, with a hundred pods and the most ports a service may have."""

OBJECTS = {
    "configmaps": 200,
    "persistentvolumeclaims": 100,
    "secrets": 100,
    "services": 100,
    "services.loadbalancers": 0,
    "services.nodeports": 0,
    "count/controllerrevisions.apps": 200,
    "count/cronjobs.batch": 50,
    "count/deployments.apps": 100,
    SLICES: 300,
    "count/horizontalpodautoscalers.autoscaling": 50,
    "count/jobs.batch": 500,
    "count/poddisruptionbudgets.policy": 50,
    "count/replicasets.apps": 300,
    "count/statefulsets.apps": 50,
}
"""Of one project at most, of every kind that its members or controllers acting for them create. With the sizes below it comes to
about 250 MB in etcd."""
OF_AN_ADDON = 100
"""Of each kind that stage workloads brings."""
ENDED = 2
"""Pods that have ended leave the quota of pods and stay in etcd: so many times the pods of one time, with those that work."""
GROUPS = "count/podgroups.scheduling.run.ai"
"""KAI creates one for each workload, so there are at most as many as pods."""

LARGEST_DATA = 128 * 1024
"""Bytes of a ConfigMap or Secret. Kubernetes itself takes 1 MiB."""
LARGEST_OBJECT = 64 * 1024
"""Bytes of any other object; a pod with all its defaults has 5 to 10 KiB."""

SHARES = 2
"""5 requests at once of the 600 that an API server works on: its own levels have 245 shares (Kubernetes 1.35)."""
PRECEDENCE = 1000
"""Before the flow schemas of people and service accounts (9000 and 9900), behind those of nodes, controllers and schedulers (800)."""


@dataclass(frozen=True)
class Sizes:
    """Defaults and maxima of one container, in MiB: defaults from the smallest host of the site's classes, maxima from the largest. ``disk`` 0: unknown."""

    memory: int
    disk: int
    memory_volume: int
    most_disk: int


def sizes(classes: Sequence[Profile]) -> Sizes:
    """A container without requests gets a small part of one GPU's share of its host."""
    found = [(own.hardware.host, own.hardware.gpu.count) for own in classes]
    return Sizes(
        memory=max(512, min(host.memory_gib * 1024 // gpus for host, gpus in found) // 16),
        disk=min(host.system_disk_gib * 1024 // gpus for host, gpus in found) // 4,
        memory_volume=max(host.memory_gib * 1024 // 2 for host, _ in found),
        most_disk=max(host.system_disk_gib * 1024 for host, _ in found),
    )


def limit_range(site: Site, space: str, own: Sizes, deny: bool, of_a_pod: float) -> Manifest:
    """Defaults of containers, and where the site refuses work the bounds: a LimitRange knows no warning.

    ``of_a_pod``: cores that a pod requests at least, so that one without requests is valid.

    No maximum of memory or processors: hosts may have more than their class demands, and the scheduler places no request
    that is larger than a host.
    """
    default = {"memory": _mib(own.memory)}
    request = {"cpu": cpu(max(LEAST_CPU, of_a_pod)), "memory": _mib(own.memory // RATIO["memory"])}
    ratio = {"memory": str(RATIO["memory"])}
    most = {}
    if own.disk:
        default["ephemeral-storage"] = _mib(own.disk)
        request["ephemeral-storage"] = _mib(own.disk // RATIO["ephemeral-storage"])
        ratio["ephemeral-storage"] = str(RATIO["ephemeral-storage"])
        most["ephemeral-storage"] = _mib(own.most_disk)
    item = {"type": "Container", "default": default, "defaultRequest": request}
    if deny:
        item |= {"maxLimitRequestRatio": ratio, **({"max": most} if most else {})}
    spec = {"spec": {"limits": [item]}}
    return manifest(site.name, "v1", "LimitRange", NAME, spec, namespace=space)


def quota(site: Site, project: Project, space: str, kinds: list[str]) -> Manifest:
    """Without GPUs: a quota would refuse a job that only has to wait. ``kinds``: those of add-ons, as jobsets.jobset.x-k8s.io."""
    hard = {
        "pods": project.pods,
        "count/pods": project.pods * ENDED,
        GROUPS: project.pods,
        "requests.storage": project.storage,
        **OBJECTS,
        "persistentvolumeclaims": OBJECTS["persistentvolumeclaims"] + len(project.trees),
        **{f"count/{holder}": OF_AN_ADDON for holder in kinds},
    }
    spec = {"spec": {"hard": {name: str(most) for name, most in hard.items()}}}
    return manifest(site.name, "v1", "ResourceQuota", NAME, spec, namespace=space)


def fairness(
    site: Site, projects: tuple[Project, ...], namespaces: dict[str, str]
) -> list[Manifest]:
    """Requests of members and of their pods have their own queues, one for each user.

    Requests of hosts, controllers and schedulers never wait behind them. Shares are not borrowed: repeated writes stay in
    etcd until it is compacted, so the pace of writes counts as much as the number of objects.
    """
    level = {
        "type": "Limited",
        "limited": {
            "nominalConcurrencyShares": SHARES,
            "borrowingLimitPercent": 0,
            "lendablePercent": 0,
            "limitResponse": {
                "type": "Queue",
                "queuing": {"queues": 64, "handSize": 6, "queueLengthLimit": 50},
            },
        },
    }
    subjects = [s for project in projects for s in _subjects(project, namespaces[project.name])]
    everything = {
        "subjects": list({str(s): s for s in subjects}.values()),
        "resourceRules": [
            {
                "verbs": ["*"],
                "apiGroups": ["*"],
                "resources": ["*"],
                "namespaces": ["*"],
                "clusterScope": True,
            }
        ],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    }
    schema = {
        "priorityLevelConfiguration": {"name": MEMBERS},
        "matchingPrecedence": PRECEDENCE,
        "distinguisherMethod": {"type": "ByUser"},
        "rules": [everything],
    }
    if not subjects:
        return []
    return [
        manifest(site.name, FLOW, "PriorityLevelConfiguration", MEMBERS, {"spec": level}),
        manifest(site.name, FLOW, "FlowSchema", MEMBERS, {"spec": schema}),
    ]


def _subjects(project: Project, space: str) -> list[Manifest]:
    return [
        *({"kind": "Group", "group": {"name": name}} for name in project.groups),
        *({"kind": "User", "user": {"name": name}} for name in project.users),
        {"kind": "ServiceAccount", "serviceAccount": {"namespace": space, "name": "*"}},
    ]


def cpu(cores: float) -> str:
    """As a LimitRange names it, such as 480m."""
    return f"{round(cores * 1000)}m"


def _mib(value: int) -> str:
    return f"{value}Mi"
