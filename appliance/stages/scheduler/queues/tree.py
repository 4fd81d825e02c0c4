"""Departments, projects and their queues as one tree per node pool, for rules and rendering."""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from appliance.models.gpu_counts import gpu_total
from appliance.models.profile import Profile
from appliance.models.site import Owner, Role, Site
from appliance.stages.kubernetes.site import KUBELETS_OWN, KubernetesOptions
from appliance.stages.scheduler.site import (
    DEFAULT_POOL,
    Amount,
    Queue,
    Resources,
    SchedulerOptions,
    Share,
)

KeyPath = tuple[str | int, ...]
ROOT: KeyPath = ("scheduler",)
RESOURCES = ("gpu", "cpu", "memory")
GB_PER_GIB = 1.073741824
UNSHARED = Amount(quota=0, limit=None)
RESERVE = 0.05
"""Of each host's cores and memory: pods of the cluster itself use it, and no queue is guaranteed it."""

OF_PROJECTS = 0.8
"""The part of a host's places that pods of projects can fill; the rest is for pods of the cluster itself."""
OVERSTATED = 4
"""Two threads per core, in a host of twice the cores that its class demands."""

Sizes = Mapping[str, Mapping[str, float]]
"""Cores and GB ("cpu", "memory") by host, or of one GPU by pool."""


@dataclass(frozen=True)
class Node:
    """One queue of one node pool. ``share`` None: it has what its children have together.

    ``path`` is the key of the site it comes from; ``leaf`` the queue work waits in.
    """

    name: str
    pool: str
    parent: str | None
    path: KeyPath
    title: str
    priority: int
    share: Resources | None
    leaf: Queue | None = None


def queue_name(owner: str, pool: str) -> str:
    """The name of a department's or project's queue in a pool."""
    return owner if pool == DEFAULT_POOL else f"{owner}-{pool}"


def leaf_name(project: str, queue: str) -> str:
    """The queue's name in the label kai.scheduler/queue."""
    return f"{project}-{queue}"


def nodes(options: SchedulerOptions) -> tuple[Node, ...]:
    """Every queue, parents before children. Where the tree is not sound, what there is of it."""
    pools = _pools_of_departments(options)
    parents = {d.name: d.parent for d in options.departments}
    found: list[Node] = []
    for i, department in sorted(
        enumerate(options.departments), key=lambda d: (_depth(d[1].name, parents), d[0])
    ):
        for pool in pools.get(department.name, ()):
            path, share = _share(("scheduler", "departments", i), department.shares, pool)
            parent = queue_name(department.parent, pool) if department.parent else None
            name = queue_name(department.name, pool)
            title = f"department {department.name}"
            found.append(Node(name, pool, parent, path, title, department.priority, share))
    for i, project in enumerate(options.projects):
        own: KeyPath = ("scheduler", "projects", i)
        used = dict.fromkeys([*(q.pool for q in project.queues), *(s.pool for s in project.shares)])
        for pool in used:
            path, share = _share(own, project.shares, pool)
            parent = queue_name(project.department, pool) if project.department else None
            name = queue_name(project.name, pool)
            title = f"project {project.name}"
            found.append(Node(name, pool, parent, path, title, project.priority, share))
        for j, queue in enumerate(project.queues):
            found.append(
                Node(
                    leaf_name(project.name, queue.name),
                    queue.pool,
                    queue_name(project.name, queue.pool),
                    (*own, "queues", j),
                    f"{project.name}/{queue.name}",
                    queue.priority,
                    _within_quota(queue),
                    queue,
                )
            )
    return tuple(found)


def amounts(
    tree: Iterable[Node], of_a_gpu: Sizes | None = None
) -> dict[str, dict[str, Amount | None]]:
    """The share of each queue by resource; None: not shared.

    A queue without its own share is guaranteed the sum of its children, and has no limit. Cores and memory that the site
    does not give follow the guaranteed GPUs, by ``of_a_gpu``; without it they are None.
    """
    listed = tuple(tree)
    children: dict[str | None, list[Node]] = {}
    for node in listed:
        children.setdefault(node.parent, []).append(node)
    found: dict[str, dict[str, Amount | None]] = {}
    for node in reversed(listed):
        below = [found[c.name] for c in children.get(node.name, ()) if c.name in found]
        together = _together(below)
        if node.share is None:
            found[node.name] = together
            continue
        found[node.name] = own = {name: getattr(node.share, name) for name in RESOURCES}
        for name, each in (of_a_gpu or {}).get(node.pool, {}).items():
            own[name] = own[name] or _derived(node.share.gpu, each, together[name])
    return found


def of_a_gpu(
    site: Site, profile: Profile, options: SchedulerOptions, nodes_have: Sizes | None = None
) -> Sizes:
    """Cores and GB that go with one guaranteed GPU of each pool, where the site does not give them.

    It is what the pool's host with the least per GPU has, less RESERVE, and no more than what the site leaves of the pool.
    A host has what its class demands, or more where ``nodes_have`` shows it: a host that understates itself takes nothing
    from the guarantees of others, and one that overstates itself is not the least.
    """
    leaves = [node.leaf for node in nodes(options) if node.leaf]
    found: dict[str, dict[str, float]] = {}
    for pool, hosts in hosts_of(site).items():
        sizes = [_size(site, profile, host, (nodes_have or {}).get(host, {})) for host in hosts]
        gpus = sum(size["gpu"] for size in sizes)
        for name in ("cpu", "memory") if gpus else ():
            each = min(size[name] / size["gpu"] for size in sizes if size["gpu"]) * (1 - RESERVE)
            given = [
                (leaf.gpu.quota, amount.quota)
                for leaf in leaves
                if leaf.pool == pool and (amount := getattr(leaf, name)) is not None
            ]
            left = each * gpus - sum(amount for _, amount in given)
            others = max(1.0, gpus - sum(quota for quota, _ in given))
            found.setdefault(pool, {})[name] = max(0.0, min(each, left / others))
    return found


def of_a_pod(
    site: Site, profile: Profile, options: SchedulerOptions, nodes_have: Sizes | None = None
) -> Mapping[str, float]:
    """Cores that each pod of a project requests at least, so that a host runs out of cores before it runs out of places.

    0 where the site allows small pods. Queues have no quota of places, and KAI evicts nothing for them (0.12: what it evicts
    still counts until it is gone). It does evict many small pods for cores.
    The largest host of the project's pools counts, by its node where that is known; a node that overstates itself counts
    at most OVERSTATED times what its class demands.
    """
    if options.small_pods == "allow":
        return dict.fromkeys((project.name for project in options.projects), 0.0)
    places = _places(site) * OF_PROJECTS
    largest: dict[str, float] = {}
    for pool, hosts in hosts_of(site).items():
        for host in hosts:
            demanded = float(site.profile_of(host, profile).hardware.host.cores)
            known = (nodes_have or {}).get(host, {}).get("cpu", 0.0) or demanded
            largest[pool] = max(largest.get(pool, 0.0), min(known, OVERSTATED * demanded))
    found: dict[str, float] = {}
    for project in options.projects:
        pools = {queue.pool for queue in project.queues}
        cores = max((largest.get(pool, 0.0) for pool in pools), default=0.0)
        found[project.name] = math.ceil(round(cores / places * 100, 6)) / 100
    return found


def _places(site: Site) -> int:
    """Pods of a GPU host at most; on a cluster of others, kubelet's own default."""
    own = site.kubernetes or KubernetesOptions()
    return KUBELETS_OWN if own.external is not None else own.kubelet.max_pods


def capacity(site: Site, profile: Profile) -> Mapping[str, Mapping[str, float]]:
    """GPUs, cores and GB of each pool: its hosts as their classes describe the least of them."""
    found: dict[str, dict[str, float]] = {}
    for pool, hosts in hosts_of(site).items():
        sizes = [_size(site, profile, host, {}) for host in hosts]
        found[pool] = {name: sum(size[name] for size in sizes) for name in RESOURCES}
    return found


def hosts_of(site: Site) -> Mapping[str, tuple[str, ...]]:
    """The GPU hosts of each pool, in the site's order; Slurm's are in none."""
    pools = site.scheduler.node_pools if site.scheduler else ()
    named = {host: pool.name for pool in pools for host in pool.hosts}
    found: dict[str, list[str]] = {DEFAULT_POOL: [], **{pool.name: [] for pool in pools}}
    for host in site.with_role(Role.GPU):
        if host.owner is not Owner.SLURM:
            found[named.get(host.name, DEFAULT_POOL)].append(host.name)
    return {pool: tuple(hosts) for pool, hosts in found.items()}


def cycles(options: SchedulerOptions) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Cycles of departments: index and path, each cycle once."""
    parents = {d.name: d.parent for d in options.departments}
    seen: set[str] = set()
    for i, department in enumerate(options.departments):
        way: list[str] = []
        here: str | None = department.name
        while here is not None and here not in way and here not in seen:
            way.append(here)
            here = parents.get(here)
        if here is not None and here in way:
            yield i, (*way[way.index(here) :], here)
        seen.update(way)


def _size(
    site: Site, profile: Profile, host: str, at_least: Mapping[str, float]
) -> Mapping[str, float]:
    least = site.profile_of(host, profile).hardware.host
    return {
        "gpu": float(gpu_total(profile, site, [site.host(host)])),
        "cpu": max(float(least.cores), at_least.get("cpu", 0.0)),
        "memory": max(least.memory_gib * GB_PER_GIB, at_least.get("memory", 0.0)),
    }


def _derived(gpu: Amount, each: float, together: Amount | None) -> Amount:
    """Idle cores are divided as idle GPUs are. No limit: what is used beyond the quota is given back like GPUs."""
    quota = max(
        math.floor(round(gpu.quota * each * 10, 6)) / 10, together.quota if together else 0.0
    )
    return Amount(quota=quota, weight=gpu.weight)


def _together(children: list[dict[str, Amount | None]]) -> dict[str, Amount | None]:
    found: dict[str, Amount | None] = {}
    for name in RESOURCES:
        given = [child[name] for child in children]
        known = [amount for amount in given if amount is not None]
        whole = len(known) == len(given) and bool(known)
        found[name] = Amount(quota=sum(a.quota for a in known)) if whole else None
    return {**found, "gpu": found["gpu"] or UNSHARED}


def _within_quota(queue: Queue) -> Queue:
    """Interactive work runs within its quota: without a limit of its own, the quota is the limit."""
    if queue.work == "train":
        return queue
    bound = {
        name: amount.model_copy(update={"limit": amount.quota})
        for name in RESOURCES
        if (amount := getattr(queue, name)) is not None and amount.limit is None
    }
    return queue.model_copy(update=bound)


def _share(own: KeyPath, shares: tuple[Share, ...], pool: str) -> tuple[KeyPath, Share | None]:
    for i, share in enumerate(shares):
        if share.pool == pool:
            return (*own, "shares", i), share
    return own, None


def _pools_of_departments(options: SchedulerOptions) -> dict[str, list[str]]:
    """Pools each department has a queue in: its shares', and those of everything below it."""
    parents = {d.name: d.parent for d in options.departments}
    used: dict[str, dict[str, None]] = {d.name: {} for d in options.departments}
    wanted = [(d.name, share.pool) for d in options.departments for share in d.shares]
    wanted += [
        (p.department, pool)
        for p in options.projects
        if p.department
        for pool in (*(q.pool for q in p.queues), *(s.pool for s in p.shares))
    ]
    for name, pool in wanted:
        for above in _upwards(name, parents):
            used.setdefault(above, {})[pool] = None
    return {name: list(pools) for name, pools in used.items()}


def _upwards(name: str, parents: Mapping[str, str | None]) -> Iterator[str]:
    here: str | None = name
    seen: set[str] = set()
    while here is not None and here in parents and here not in seen:
        seen.add(here)
        yield here
        here = parents[here]


def _depth(name: str, parents: Mapping[str, str | None]) -> int:
    return len(list(_upwards(name, parents)))
