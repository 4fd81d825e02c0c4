"""Departments, projects and their queues as one tree per node pool: what the rules judge and what is rendered."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from appliance.models.gpus import gpu_total
from appliance.models.profile import Profile
from appliance.models.site import Owner, Role, Site
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
    """The name of the queue work waits in: what a job's label kai.scheduler/queue says."""
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


def amounts(tree: Iterable[Node]) -> dict[str, dict[str, Amount | None]]:
    """What each queue gets of each resource, by queue and resource; None: not shared out.

    A queue without a share of its own is guaranteed what its children are, and has no limit.
    """
    listed = tuple(tree)
    children: dict[str | None, list[Node]] = {}
    for node in listed:
        children.setdefault(node.parent, []).append(node)
    found: dict[str, dict[str, Amount | None]] = {}
    for node in reversed(listed):
        found[node.name] = (
            {name: getattr(node.share, name) for name in RESOURCES}
            if node.share is not None
            else _together([found[c.name] for c in children.get(node.name, ()) if c.name in found])
        )
    return found


def capacity(site: Site, profile: Profile) -> Mapping[str, Mapping[str, float]]:
    """GPUs, cores and GB of each pool: its hosts as the profile describes the least of them."""
    hardware = profile.hardware
    each = {
        "cpu": float(hardware.host.cores),
        "memory": hardware.host.memory_gib * GB_PER_GIB,
    }
    return {
        pool: {
            "gpu": float(gpu_total(profile, map(site.host, hosts))),
            **{name: value * len(hosts) for name, value in each.items()},
        }
        for pool, hosts in hosts_of(site).items()
    }


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
    """Departments that stand above themselves: index and the way round, each way once."""
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
