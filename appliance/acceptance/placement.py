"""Tests placement: gangs, packing, consolidation, topology."""

from collections.abc import Mapping

from appliance.acceptance.capacity import Capacity
from appliance.acceptance.promise import KEPT, Judgement, Promise, broken, unasked, unknown
from appliance.acceptance.sandbox import Sandbox
from appliance.acceptance.timeline import Timeline
from appliance.acceptance.workload import Work

SCHEDULER_LOG = "kubectl logs -n kai-scheduler deploy/kai-scheduler-default"


def play_gang(sandbox: Sandbox) -> None:
    """A gang needs all GPUs while one is held: no pod may start; then all."""
    count, unit = sandbox.capacity.units, sandbox.capacity.unit
    sandbox.submit(Work("held", gpus=1))
    sandbox.until_placed("held")
    sandbox.phase("too large")
    sandbox.submit(Work("gang", pods=count, gpus=unit, gang=count))
    sandbox.watch()
    sandbox.phase("fits")
    sandbox.remove("held")
    sandbox.until_placed("gang", pods=count)


def judge_gang(seen: Timeline, capacity: Capacity) -> Judgement:
    """All pods of a gang start, or none."""
    if not seen.last("start").placed("held"):
        return broken("a single pod with one GPU was not placed")
    count = capacity.units
    if part := seen.most("too large", "gang"):
        return broken(f"{part} of {count} pods were placed although not all could be")
    if not seen.asked("too large", "gang", count):
        return unasked("the gang")
    if (placed := seen.last("fits").placed("gang")) < count:
        return broken(f"{placed} of {count} pods were placed although all could be")
    return KEPT


def play_packing(sandbox: Sandbox) -> None:
    """One pod after the other, as many as the smallest host has GPUs."""
    for number in range(1, _packed(sandbox.capacity) + 1):
        sandbox.submit(Work(f"small-{number}", gpus=1))
        sandbox.until_placed(f"small-{number}")
    sandbox.phase("placed")
    sandbox.watch(0)


def _packed(capacity: Capacity) -> int:
    return min(min((node.gpus for node in capacity.gpu_nodes), default=0), 4)


def judge_packing(seen: Timeline, capacity: Capacity) -> Judgement:
    """All of them run on one host."""
    names = [f"small-{number}" for number in range(1, _packed(capacity) + 1)]
    nodes = seen.last("placed").nodes(*names)
    if len(nodes) < len(names):
        return broken(f"{len(nodes)} of {len(names)} pods with one GPU each were placed")
    if len(set(nodes)) > 1:
        return broken(f"{len(names)} pods of one GPU each were spread over {len(set(nodes))} hosts")
    return KEPT


def play_consolidation(sandbox: Sandbox) -> None:
    """A small pod on each of two hosts, every other host full; then a pod that needs a whole host."""
    first, second, *others = sandbox.capacity.gpu_nodes
    for number, node in enumerate(others):
        sandbox.submit(Work(f"full-{number}", gpus=node.gpus, kind="build", pinned=node.name))
    if others:
        sandbox.until_placed(*_fillers(sandbox.capacity))
    for name, node in (("one", first), ("two", second)):
        sandbox.submit(Work(f"rest-{name}", gpus=node.gpus - 1, kind="build", pinned=node.name))
        sandbox.until_placed(f"rest-{name}")
    for name in ("one", "two"):
        sandbox.submit(Work(f"small-{name}", gpus=1))
    sandbox.until_placed("small-one", "small-two")
    sandbox.remove("rest-one", "rest-two")
    sandbox.phase("apart")
    sandbox.watch(0)
    sandbox.phase("large")
    sandbox.submit(Work("large", gpus=min(first.gpus, second.gpus), kind="train"))
    sandbox.until(
        lambda now: now.placed("large") == 1 and now.placed("small-one", "small-two") == 2
    )


def _fillers(capacity: Capacity) -> list[str]:
    """Pods that fill every host but the first two."""
    return [f"full-{number}" for number in range(len(capacity.gpu_nodes) - 2)]


def judge_consolidation(seen: Timeline, capacity: Capacity) -> Judgement:
    """The large pod is placed and no small one is lost."""
    others = _fillers(capacity)
    if seen.last("apart").placed(*others) < len(others):
        return unknown("the other hosts could not be filled")
    if len(set(seen.last("apart").nodes("small-one", "small-two"))) != 2:
        return unknown("two small pods could not be placed on two hosts")
    end = seen.last("large")
    if not end.placed("large"):
        return broken("a pod that needs a whole host waits while two hosts are nearly empty")
    if (left := end.placed("small-one", "small-two")) < 2:
        return broken(f"a host was freed by ending work: {left} of 2 small pods are placed")
    return KEPT


def play_topology(sandbox: Sandbox) -> None:
    """One free host in each domain: two pods that must be near each other may not start; then a domain has two free hosts."""
    found = sandbox.capacity.domain()
    assert found, "lacks_topology refuses a cluster without domains"
    topology, label, domains = found
    chosen = max(domains, key=lambda name: len(domains[name]))
    sizes = {node.name: node.gpus for node in sandbox.capacity.gpu_nodes}
    held = _all_but_one(sandbox.capacity, domains)
    for number, name in enumerate(held):
        sandbox.submit(Work(f"held-{number}", gpus=sizes[name], kind="build", pinned=name))
    names = tuple(f"held-{number}" for number in range(len(held)))
    sandbox.until_placed(*names, pods=len(held))
    sandbox.phase("apart")
    sandbox.submit(
        Work(
            "near",
            pods=2,
            gang=2,
            gpus=min(sizes[n] for n in domains[chosen]),
            near=(topology, label),
        )
    )
    sandbox.watch()
    sandbox.phase("together")
    sandbox.remove(f"held-{held.index(domains[chosen][1])}")
    sandbox.until_placed("near", pods=2)


def _all_but_one(capacity: Capacity, domains: Mapping[str, list[str]]) -> list[str]:
    """The hosts to fill: all but the first of each domain, and those without a domain."""
    held = [name for names in domains.values() for name in names[1:]]
    outside = (node.name for node in capacity.gpu_nodes)
    return held + [n for n in outside if not any(n in names for names in domains.values())]


def judge_topology(seen: Timeline, capacity: Capacity) -> Judgement:
    """Never across domains, and placed once one domain has room."""
    found = capacity.domain()
    filled = len(_all_but_one(capacity, found[2])) if found else 0
    if seen.last("start").placed(*(f"held-{number}" for number in range(filled))) < filled:
        return unknown("all but one host of each domain could not be filled")
    if seen.most("apart", "near"):
        return broken("pods that must be near each other were placed in different domains")
    if not seen.asked("apart", "near", 2):
        return unasked("the near ones")
    nodes = set(seen.last("together").nodes("near"))
    if len(nodes) < 2 or not found:
        return broken("pods that must be near each other wait although a domain has room")
    if not any(nodes <= set(names) for names in found[2].values()):
        return broken(f"{' and '.join(sorted(nodes))} are not in one domain")
    return KEPT


def lacks_topology(capacity: Capacity) -> str:
    """Needs a level with two domains, one of them with two hosts."""
    if reason := capacity.lacks(hosts=3, gpus=3):
        return reason
    if capacity.domain() is None:
        return "no topology of the cluster has two domains, one of them with two GPU hosts"
    return ""


def lacks_hosts(capacity: Capacity) -> str:
    """Needs two hosts with two GPUs each."""
    if min((node.gpus for node in capacity.gpu_nodes), default=2) < 2:
        return "needs hosts with two GPUs or more"
    return capacity.lacks(hosts=2, gpus=4)


PROMISES = (
    Promise(
        "scheduler.gang",
        "All pods of a job start, or none",
        "A gang that needs all GPUs is submitted while one GPU is held, and the GPU freed later. Pods that "
        "start without their gang hold GPUs and wait indefinitely for the others.",
        lambda capacity: capacity.lacks(gpus=2),
        play_gang,
        judge_gang,
        f"check whether KAI groups the job's pods: kubectl get podgroups -A; {SCHEDULER_LOG}",
    ),
    Promise(
        "scheduler.packing",
        "Partly used hosts are filled first",
        "Small pods are submitted one after the other and must all run on one host. If they are spread over hosts, no whole "
        "host is left for a large job.",
        lacks_hosts,
        play_packing,
        judge_packing,
        "set placement: binpack for the node pool (scheduler.node_pools), then appliance queue apply",
    ),
    Promise(
        "scheduler.consolidation",
        "Small workloads move to free a whole host",
        "Two hosts each hold one small preemptible pod and nothing else; a pod that needs a whole host is submitted. "
        "The scheduler should move one small pod to the host of the other.",
        lacks_hosts,
        play_consolidation,
        judge_consolidation,
        f"check that the shard's actions include consolidation: kubectl get schedulingshards -o yaml; {SCHEDULER_LOG}",
    ),
    Promise(
        "scheduler.topology",
        "Pods with a topology constraint share a domain",
        "One host is left free in each domain of the topology, and two pods that must share a domain are submitted; then "
        "a second host of one domain is freed.",
        lacks_topology,
        play_topology,
        judge_topology,
        "compare kubectl get topologies -o yaml with the labels of the hosts; then appliance deploy --stage scheduler",
    ),
)
