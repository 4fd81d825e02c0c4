"""The gates of copies to, from and between the GPUs of a host: the rates that site or profile set."""

from itertools import combinations

from appliance.benchmarks.benchmark import Requirement, Target
from appliance.benchmarks.gating import GPUS, gate, gpu_hosts
from appliance.checks.check import View
from appliance.models.acceptance import Level
from appliance.models.bound import Bound
from appliance.models.gpu_counts import gpu_count
from appliance.models.result import Place, place

TO_GPU, FROM_GPU, PEER = "nvbandwidth.h2d", "nvbandwidth.d2h", "nvbandwidth.peer"
CHECKS = (TO_GPU, FROM_GPU, PEER)
BOUNDS = {check: Bound("GB/s") for check in CHECKS}
TITLES = {
    TO_GPU: "Copies from the host's memory to every GPU",
    FROM_GPU: "Copies from every GPU to the host's memory",
    PEER: "Copies between every two GPUs of a host",
}


def places(check: str, host: str, count: int) -> tuple[Place, ...]:
    """Targets of a host with ``count`` GPUs: each GPU, or each pair of them."""
    of_each = 2 if check == PEER else 1
    names = [f"GPU {index}" for index in range(count)]
    return tuple(place(host, *some) for some in combinations(names, of_each))


def gates(view: View) -> tuple[Requirement, ...]:
    """One for each limit that is set."""
    found: tuple[Requirement, ...] = ()
    for check in CHECKS:
        targets = tuple(
            Target(str(at), (host,))
            for host in gpu_hosts(view)
            for at in places(check, host, gpu_count(view.profile, view.site.host(host)))
        )
        level = Level.HOST if check == PEER else Level.GPU
        found += gate(view, check, TITLES[check], level, targets, view.limit(check), GPUS)
    return found
