"""What the cluster's queues have and want, and why pods wait in them."""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from appliance.actions.kubernetes.queue_tree import tree
from appliance.adapters.kubernetes import KubernetesApi, Ref, Resource
from appliance.config.load import LoadedSite
from appliance.errors import ConfigError
from appliance.models.queue_plan import QueueRow, QueueState, QueueUse, WaitingPod
from appliance.stages.queues.difference import amount_of
from appliance.stages.scheduler.queues.kai import POOL_LABEL
from appliance.stages.scheduler.queues.tenant_queues import QUEUE
from appliance.stages.scheduler.queues.tree import hosts_of
from appliance.text import one_line

GPU = "nvidia.com/gpu"
NVIDIA = "nvidia.com/"
PARTS = ("gpu-fraction", "gpu-memory")
"""Annotations of a pod that requests a part of a GPU; the device plugin does not offer such parts."""
EPOCH = "1970-01-01T00:00:00Z"

Offers = Mapping[str, int]
"""By resource of NVIDIA's device plugin, the most that one host of a pool offers."""


def state(loaded: LoadedSite, cluster: KubernetesApi, now: datetime | None = None) -> QueueState:
    """Reads queues, hosts and pods. Raises ConfigError unless KAI's own queues are used, ClusterFailed."""
    site = loaded.site
    assert site.scheduler is not None
    if site.scheduler.kind != "kai":
        raise ConfigError(
            f"queue status cannot read the queues of scheduler kind {site.scheduler.kind}",
            "use the scheduler's own console, or kubectl get pods --all-namespaces",
        )
    rows = {row.name: row for row in tree(site, loaded.profile, site.scheduler).queues if row.work}
    offers = _offers(cluster, hosts_of(site))
    used = {name: _used(cluster, row) for name, row in rows.items()}
    moment = now or datetime.now(UTC)
    pods = [pod for pod in cluster.find("v1", "Pod", QUEUE) if _waits(pod)]
    waiting = sorted(
        (_waiting(pod, used, offers, moment) for pod in pods), key=lambda p: -p.waits_s
    )
    count = Counter(pod.queue for pod in waiting)
    queues = tuple(use.model_copy(update={"waiting": count[use.name]}) for use in used.values())
    return QueueState(site=site.name, server=cluster.server, queues=queues, waiting=tuple(waiting))


def _offers(
    cluster: KubernetesApi, pools: Mapping[str, Iterable[str]]
) -> dict[str, dict[str, int]]:
    nodes = {node["metadata"]["name"]: node for node in cluster.find("v1", "Node", "")}
    found: dict[str, dict[str, int]] = {}
    for pool, hosts in pools.items():
        most = found.setdefault(pool, {})
        for host in hosts:
            given = nodes.get(host, {}).get("status", {}).get("allocatable", {})
            for name in (name for name in given if name.startswith(NVIDIA)):
                most[name] = max(most.get(name, 0), _count(given[name]))
    return found


def _used(cluster: KubernetesApi, row: QueueRow) -> QueueUse:
    found = cluster.get(Ref("scheduling.run.ai/v2", "Queue", row.name))
    allocated, requested = (_amount(found, key) for key in ("allocated", "requested"))
    return QueueUse(
        name=row.name,
        pool=row.pool,
        gpu_quota=row.gpu_quota,
        gpu_limit=row.gpu_limit,
        gpu_allocated=allocated,
        gpu_requested=requested,
        waiting=0,
    )


def _amount(queue: Resource | None, key: str) -> float | None:
    """GPUs in a queue's status. KAI leaves out a resource that is not in use, and counts parts of GPUs in thousandths."""
    if queue is None:
        return None
    amount = amount_of((queue.get("status", {}).get(key) or {}).get(GPU, 0))
    return None if amount is None else float(amount)


def _waits(pod: Resource) -> bool:
    return pod.get("status", {}).get("phase") == "Pending" and "nodeName" not in pod["spec"]


def _waiting(
    pod: Resource, used: Mapping[str, QueueUse], offers: Mapping[str, Offers], now: datetime
) -> WaitingPod:
    meta = pod["metadata"]
    labels = meta["labels"]
    use = used.get(labels[QUEUE])
    pool = use.pool if use else labels.get(POOL_LABEL, "")
    wanted = _requests(pod)
    cause, fix = _cause(pod, wanted, use, offers.get(pool, {}))
    since = datetime.fromisoformat(meta.get("creationTimestamp") or EPOCH)
    return WaitingPod(
        name=meta["name"],
        namespace=meta.get("namespace", ""),
        queue=labels[QUEUE],
        pool=pool,
        requests=_in_words(pod, wanted),
        waits_s=max(0.0, (now - since).total_seconds()),
        cause=cause,
        fix=fix,
    )


def _requests(pod: Resource) -> Counter[str]:
    found: Counter[str] = Counter()
    for container in pod["spec"]["containers"]:
        limits = container.get("resources", {}).get("limits", {})
        found.update({k: _count(v) for k, v in limits.items() if k.startswith(NVIDIA)})
    return +found


def _in_words(pod: Resource, wanted: Counter[str]) -> str:
    notes = pod["metadata"].get("annotations", {})
    said = [f"{n} x {name.removeprefix(NVIDIA)}" for name, n in sorted(wanted.items())]
    said += [f"{key} {notes[key]}" for key in PARTS if key in notes]
    return ", ".join(said) or "no GPU"


def _cause(
    pod: Resource, wanted: Counter[str], use: QueueUse | None, offers: Offers
) -> tuple[str, str]:
    """Why it waits and what to do. What can never start comes first, then the queue's limit, then KAI's own words."""
    if use is None:
        return (
            f"queue {pod['metadata']['labels'][QUEUE]} is not declared in the site",
            "delete the pod, and create it in a queue that appliance queue show lists",
        )
    if use.gpu_allocated is None:
        return (
            f"the cluster has no queue {use.name}, or KAI does not report its GPUs",
            "appliance queue plan shows what is missing, appliance queue apply creates it",
        )
    for name, count in sorted(wanted.items()):
        if count > offers.get(name, 0):
            return (
                f"it can never start: it requests {count} x {name}, and a host of pool {use.pool} offers {offers.get(name, 0)}",
                "delete it: KAI may not return GPUs to other work of the queue while it waits. Request what a host of the pool offers",
            )
    conditions: list[Resource] = pod["status"].get("conditions", [])
    verdict = next((c for c in conditions if c["type"] == "PodScheduled"), {})
    said = one_line(verdict.get("message", ""))
    if verdict.get("reason") == "BindingError":
        return (
            f"KAI chose a host, but could not bind the pod: {said}",
            "if a policy denied it, update the policies to this release: appliance queue plan, then appliance queue apply",
        )
    gpus = wanted[GPU]
    total = use.gpu_allocated + gpus
    if gpus and use.gpu_limit is not None and total > use.gpu_limit:
        return (
            f"queue {use.name} is at its limit: {use.gpu_allocated:g} of {use.gpu_limit:g} GPUs are allocated",
            "wait for other work of the queue, or raise the queue's gpu.limit in site.yml: appliance queue apply",
        )
    if gpus and total > use.gpu_quota:
        return (
            f"queue {use.name} has {use.gpu_allocated:g} GPUs of {use.gpu_quota:g} guaranteed, and no idle GPUs to borrow: {said}",
            "wait for idle GPUs, or raise the queue's gpu.quota in site.yml: appliance queue apply",
        )
    if not said:
        return (
            "KAI has not judged it yet",
            "check the scheduler: appliance health --check scheduler",
        )
    fix = (
        "KAI evicts work that borrowed GPUs; if this lasts: appliance health --check scheduler"
        if gpus
        else ""
    )
    return f"within the guarantee of queue {use.name}: {said}", fix


def _count(value: object) -> int:
    text = str(value)
    return int(text) if text.isdecimal() else 0
