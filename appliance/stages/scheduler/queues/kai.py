"""Queues, node pools, priority classes and topology as KAI-Scheduler reads them, alone and under its resource management.

Fields as in the resource definitions of KAI v0.18 and KAI Resource Management v0.18.6 (2026-10): CPU in millicores,
memory in MB (10^6 bytes), GPUs in devices; -1 is unlimited.
"""

from appliance.models.profile import Profile
from appliance.models.site import Site
from appliance.stages.scheduler.queues.manifest import Manifest, manifest, number
from appliance.stages.scheduler.queues.tree import Node, Sizes, amounts, nodes, queue_name
from appliance.stages.scheduler.site import DEFAULT_POOL, Amount, Queue, SchedulerOptions

UNBOUND = -1
UNITS = {"gpu": 1, "cpu": 1000, "memory": 1000}
QUEUE_API = "scheduling.run.ai/v2"
POOL_LABEL = "kai.scheduler/node-pool"
OWN_POOL_LABEL = "appliance/node-pool"
"""What KAI Resource Management chooses a pool's hosts by; the other label it sets itself."""

TITLE = "appliance/title"
"""What people call a queue. Not in displayName: KAI's scheduler puts that into queue_name where its queue controller puts the name,
so that fair share and quota of one queue had two names (metrics of v0.14.7, v0.16.8 and v0.17.0)."""
DEFAULT_QUEUES = (("default-parent-queue", None), ("default-queue", "default-parent-queue"))
"""Of work that names no queue: the second is the pod grouper's word (v0.17.0)."""

HOSTNAME = "kubernetes.io/hostname"
TOPOLOGY = "fabric"
TIER = "fabric.topograph.run/tier-1"
"""The label of a host's leaf switch in Topograph 1.0 (2026-08-18)."""


def kai(site: Site, options: SchedulerOptions, each: Sizes) -> list[Manifest]:
    """Queues and shards of KAI alone; parents before children. ``each``: what goes with a guaranteed GPU."""
    found = [
        manifest(
            site.name,
            "kai.scheduler/v1",
            "SchedulingShard",
            pool.name,
            {
                "spec": {
                    "partitionLabelValue": pool.name,
                    "placementStrategy": {"gpu": pool.placement, "cpu": pool.placement},
                }
            },
        )
        for pool in options.node_pools
    ]
    return [*found, *queues(site, options, each), *_idle(site, options)]


def queues(site: Site, options: SchedulerOptions, each: Sizes) -> list[Manifest]:
    """The queues of departments and projects, parents before children."""
    tree = nodes(options)
    given = amounts(tree, each)
    return [_queue(site, node, given[node.name]) for node in tree]


def resource_management(site: Site, options: SchedulerOptions, each: Sizes) -> list[Manifest]:
    """Node pools, departments and projects; their controller makes the queues of them. ``each``: what goes with a guaranteed GPU."""
    tree = nodes(options)
    given = amounts(tree, each)
    found = [
        manifest(
            site.name,
            "kai.resources/v1alpha1",
            "NodePool",
            pool.name,
            {
                "spec": {
                    "labelKey": OWN_POOL_LABEL,
                    "labelValue": pool.name,
                    "schedulingShardConfig": {
                        "placementStrategy": {"gpu": pool.placement, "cpu": pool.placement}
                    },
                }
            },
        )
        for pool in options.node_pools
    ]
    for department in options.departments:
        own = [n for n in tree if n.leaf is None and n.name == queue_name(department.name, n.pool)]
        queues = [_shared_queue(node, given[node.name]) for node in own]
        found.append(_owner(site, "Department", department.name, {"queues": queues}))
    for project in options.projects:
        leaves = [n for n in tree if n.leaf and n.parent == queue_name(project.name, n.pool)]
        spec: Manifest = {
            "enforceKaiScheduler": True,
            "deletionType": "Blocking",
            "namespace": f"kai-{project.name}",
            "defaultNodePools": [q.pool for q in project.queues],
            "queues": [_shared_queue(node, given[node.name]) for node in leaves],
        }
        if project.department:
            spec["parent"] = project.department
        found.append(_owner(site, "Project", project.name, spec))
    return [*found, *_idle(site, options)]


def priority_classes(site: Site, options: SchedulerOptions) -> list[Manifest]:
    """The site's own; those every site has come with the chart."""
    return [
        manifest(
            site.name,
            "scheduling.k8s.io/v1",
            "PriorityClass",
            priority.name,
            {
                "value": priority.value,
                "description": f"Of site {site.name}",
                "preemptionPolicy": "PreemptLowerPriority",
            },
        )
        for priority in options.priorities
    ]


def topology(site: Site, profile: Profile, options: SchedulerOptions) -> list[Manifest]:
    """The levels of proximity, widest first; the host is always the last.

    By fabric: the lowest tier of switches, by the label Topograph gives a host.
    """
    if options.topology.source == "none":
        return []
    levels = [label for label in options.topology.levels if label != HOSTNAME]
    if options.topology.source == "fabric" and any(
        own.hardware.fabric.link_layer == "InfiniBand" for own in site.profiles(profile)
    ):
        levels = [TIER]
    spec = {"levels": [{"nodeLabel": label} for label in (*levels, HOSTNAME)]}
    return [manifest(site.name, "kai.scheduler/v1alpha1", "Topology", TOPOLOGY, {"spec": spec})]


def node_labels(options: SchedulerOptions) -> dict[str, dict[str, str]]:
    """The node pool each host is labelled with; those of the default pool are not."""
    key = pool_label(options)
    return {host: {key: pool.name} for pool in options.node_pools for host in pool.hosts}


def pool_label(options: SchedulerOptions) -> str:
    """The label of the hosts of a pool."""
    return POOL_LABEL if options.kind == "kai" else OWN_POOL_LABEL


def pool_of(options: SchedulerOptions | None, queue: Queue) -> str:
    """The pool by which a KAI scheduler selects the pods of a queue; "" in the default pool, and if pods are labelled elsewhere."""
    own = options is not None and options.kind == "kai" and queue.pool != DEFAULT_POOL
    return queue.pool if own else ""


def _queue(site: Site, node: Node, given: dict[str, Amount | None]) -> Manifest:
    leaf = node.leaf
    times = {
        "preemptMinRuntime": leaf.preempt_min_runtime if leaf else None,
        "reclaimMinRuntime": leaf.reclaim_min_runtime if leaf else None,
    }
    spec: Manifest = {
        "priority": node.priority,
        "resources": _resources(given, "quota"),
        **({"parentQueue": node.parent} if node.parent else {}),
        **{key: _duration(value) for key, value in times.items() if value},
    }
    labels = {} if node.pool == DEFAULT_POOL else {POOL_LABEL: node.pool}
    made = manifest(site.name, QUEUE_API, "Queue", node.name, {"spec": spec}, labels=labels)
    made["metadata"]["annotations"][TITLE] = node.title
    return made


def _idle(site: Site, options: SchedulerOptions) -> list[Manifest]:
    """Queues of work without a queue: no guarantee, only idle resources. The chart creates them only at its first installation."""
    nothing = dict.fromkeys(UNITS, Amount(quota=0, limit=None))
    return [
        manifest(
            site.name,
            QUEUE_API,
            "Queue",
            name,
            {
                "spec": {
                    "resources": _resources(dict(nothing), "quota"),
                    **({"parentQueue": parent} if parent else {}),
                }
            },
        )
        for name, parent in (DEFAULT_QUEUES if options.unassigned == "idle" else ())
    ]


def _duration(said: str) -> str:
    """As Go reads one, which knows no days: a queue KAI cannot read keeps it from reading any."""
    return f"{int(said[:-1]) * 24}h" if said.endswith("d") else said


def _shared_queue(node: Node, given: dict[str, Amount | None]) -> Manifest:
    return {
        "name": node.name,
        "nodepool": node.pool,
        "priority": node.priority,
        "resources": _resources(given, "deserved"),
    }


def _owner(site: Site, kind: str, name: str, spec: Manifest) -> Manifest:
    return manifest(site.name, "kai.resources/v1alpha1", kind, name, {"spec": spec})


def _resources(given: dict[str, Amount | None], quota: str) -> Manifest:
    return {name: _amount(given[name], UNITS[name], quota) for name in given}


def _amount(amount: Amount | None, unit: int, quota: str) -> Manifest:
    if amount is None:
        return {quota: UNBOUND, "limit": UNBOUND, "overQuotaWeight": 1}
    return {
        quota: number(amount.quota * unit),
        "limit": UNBOUND if amount.limit is None else number(amount.limit * unit),
        "overQuotaWeight": number(amount.weight),
    }
