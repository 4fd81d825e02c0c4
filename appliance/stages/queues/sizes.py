"""Cores and memory of the cluster's nodes, and running work that a lower guarantee no longer covers."""

from collections.abc import Iterator
from decimal import Decimal

from appliance.adapters.kubernetes import Cluster, Resource
from appliance.stages.queues.difference import amount_of
from appliance.stages.queues.work import pods_below, pods_of
from appliance.stages.scheduler.queues.bounds import POD_CPU, cpu
from appliance.stages.scheduler.queues.tree import Sizes
from appliance.stages.scheduler.site import MOST

UNITS = {"cpu": (1, 1000, "cores"), "memory": (10**9, 1000, "GB")}
"""For each resource: divisor of Kubernetes' quantity, divisor of KAI's number, and the resulting unit."""


def nodes_have(cluster: Cluster) -> Sizes:
    """Return allocatable cores and GB of each node; 0 if it reports none."""
    return {
        node["metadata"]["name"]: {
            name: _size(node.get("status", {}).get("allocatable", {}).get(name), divisor)
            for name, (divisor, _, _) in UNITS.items()
        }
        for node in cluster.find("v1", "Node", "")
    }


def beyond(cluster: Cluster, wanted: Resource, found: Resource) -> Iterator[str]:
    """Return, for each guarantee lowered below the use of running work, what happens to that work."""
    for name, (divisor, per_unit, unit) in UNITS.items():
        old, new = (_quota(queue, name) for queue in (found, wanted))
        status = found.get("status", {})
        held, kept = (
            _size((status.get(key) or {}).get(name), divisor)
            for key in ("allocated", "allocatedNonPreemptible")
        )
        if new is None or (old is not None and old <= new) or held <= new / per_unit:
            continue
        queue = wanted["metadata"]["name"]
        running = pods_of(cluster, queue) or "its running work"
        said = f"{running}: {held:g} {unit} in use, {new / per_unit:g} guaranteed"
        yield f"{said}; KAI may evict what is beyond it when others need their guarantee"
        if kept > new / per_unit:
            yield f"its work that is never evicted holds {kept:g} {unit} and continues; new work waits"


def below(cluster: Cluster, wanted: Resource, found: Resource) -> Iterator[str]:
    """Return running pods that request less CPU than pods of their project must from now on."""
    old, new = (
        amount_of((space["metadata"].get("annotations") or {}).get(POD_CPU)) or Decimal(0)
        for space in (found, wanted)
    )
    name = wanted["metadata"]["name"]
    if new > old and (pods := pods_below(cluster, name, new)):
        least = cpu(float(new))
        yield f"{pods}: requests less than {least} of cpu and continues; new pods request at least this"


def _quota(queue: Resource, name: str) -> float | None:
    """Return a quota; None: unlimited."""
    amount = queue.get("spec", {}).get("resources", {}).get(name) or {}
    quota = amount.get("quota", -1)
    return None if quota < 0 else float(quota)


def _size(quantity: object, divisor: int) -> float:
    amount = amount_of(quantity)
    return 0.0 if amount is None else min(float(amount / divisor), float(MOST))
