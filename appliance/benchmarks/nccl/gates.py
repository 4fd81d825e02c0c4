"""The gates of NCCL's collectives: bandwidth of each host and of all together, by the limits that are set."""

from appliance.benchmarks import floors
from appliance.benchmarks.benchmark import Requirement, of_cluster, per_host
from appliance.benchmarks.gating import FABRIC, GPUS, gate, gpu_hosts
from appliance.checks.check import View
from appliance.models.acceptance import Level
from appliance.models.bound import Bound
from appliance.models.gpu_counts import gpu_count

HOST, LOOPBACK, GROUPS, ALL, CURVE = (
    "nccl.host",
    "nccl.loopback",
    "nccl.groups",
    "nccl.cluster",
    "nccl.curve",
)
CHECKS = (HOST, LOOPBACK, GROUPS, ALL, CURVE)
BOUNDS = {check: Bound("GB/s") for check in (HOST, LOOPBACK, GROUPS, ALL)}


def gates(view: View) -> tuple[Requirement, ...]:
    """If the cluster's bandwidth is required: also that of each host with several GPUs, if it is published for them, and of groups."""
    bound = view.limit(ALL)
    hosts = gpu_hosts(view)
    if bound is None:
        return ()
    host = floors.floor(view, HOST)
    alone = "all_reduce over the GPUs of each host"
    targets = per_host(h for h in hosts if gpu_count(view.profile, view.site.host(h)) > 1)
    found = gate(view, HOST, alone, Level.HOST, targets, host, GPUS, spans=True)
    if len(hosts) > 1:
        whole, also = of_cluster(hosts, f"{len(hosts)} hosts"), (CURVE,)
        title = "all_reduce over all GPU hosts"
        found += gate(view, ALL, title, Level.CLUSTER, whole, bound, FABRIC, also, spans=True)
    return found
