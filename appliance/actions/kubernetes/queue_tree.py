"""The site's queue tree for people."""

from collections.abc import Iterator

from appliance.models.profile import Profile
from appliance.models.queue_plan import PoolRow, QueueRow, QueueTree
from appliance.models.site import Site
from appliance.stages.scheduler.queues.tree import (
    Node,
    amounts,
    capacity,
    hosts_of,
    nodes,
    of_a_gpu,
)
from appliance.stages.scheduler.site import Amount, Queue, SchedulerOptions

Given = dict[str, dict[str, Amount | None]]
Children = dict[tuple[str, str | None], list[Node]]
"""Queues by pool and parent."""


def tree(site: Site, profile: Profile, options: SchedulerOptions) -> QueueTree:
    """Every queue with its guarantee, depth first within its pool."""
    listed = nodes(options)
    given = amounts(listed, of_a_gpu(site, profile, options) if options.kind != "runai" else None)
    room = capacity(site, profile)
    pools = [
        PoolRow(
            name=pool,
            hosts=hosts,
            gpus=room[pool]["gpu"],
            guaranteed=sum(
                _quota(given, n, "gpu") or 0 for n in listed if n.pool == pool and not n.parent
            ),
        )
        for pool, hosts in hosts_of(site).items()
    ]
    children: Children = {}
    for node in listed:
        children.setdefault((node.pool, node.parent), []).append(node)
    rows = [row for pool in pools for row in _below(None, 0, pool.name, children, given)]
    return QueueTree(
        site=site.name,
        kind=options.kind,
        admission=options.admission,
        pools=tuple(pools),
        queues=tuple(rows),
    )


def _below(
    parent: str | None, depth: int, pool: str, children: Children, given: Given
) -> Iterator[QueueRow]:
    for node in children.get((pool, parent), ()):
        yield _row(node, depth, given)
        if node.leaf is None:
            yield from _below(node.name, depth + 1, pool, children, given)


def _row(node: Node, depth: int, given: Given) -> QueueRow:
    gpu = given[node.name]["gpu"] or Amount()
    return QueueRow(
        name=node.name,
        title=node.title,
        pool=node.pool,
        depth=depth,
        work=node.leaf.work if node.leaf else "",
        gpu_quota=gpu.quota,
        gpu_limit=gpu.limit,
        weight=gpu.weight,
        cpu_quota=_quota(given, node, "cpu"),
        memory_quota=_quota(given, node, "memory"),
        rules=tuple(_rules(node.leaf)) if node.leaf else (),
    )


def _quota(given: Given, node: Node, name: str) -> float | None:
    amount = given[node.name][name]
    return amount.quota if amount else None


def _rules(queue: Queue) -> Iterator[str]:
    if queue.fraction is not None:
        yield f"{queue.fraction:g} GPU by default"
    if queue.time_limit:
        yield f"ends after {queue.time_limit}"
    if queue.idle_limit:
        yield f"ends when idle {queue.idle_limit}"
    if queue.priority_class:
        yield f"class {queue.priority_class}"
