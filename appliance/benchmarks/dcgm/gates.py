"""The gate of DCGM's diagnostics: a pass of every GPU at the level that site or profile set."""

from appliance.benchmarks.benchmark import Requirement, per_host
from appliance.benchmarks.gating import GPUS, gate, gpu_hosts
from appliance.checks.check import View
from appliance.models.acceptance import Level
from appliance.models.bound import Bound
from appliance.models.gpu_counts import gpu_count

CHECK = "dcgm.diag"
CHECKS = (CHECK,)
BOUNDS = {CHECK: Bound("level", least=1, most=4, whole=True)}


def gates(view: View) -> tuple[Requirement, ...]:
    """The diagnostics of every GPU at the required level."""
    bound = view.limit(CHECK)
    targets = tuple(
        target
        for host in gpu_hosts(view)
        for index in range(gpu_count(view.profile, view.site.host(host)))
        for target in per_host((host,), f"GPU {index}")
    )
    title = f"DCGM's diagnostics of every GPU, level {bound.value}" if bound else ""
    # A pass counts the tests; the level is judged by the benchmark.
    return gate(view, CHECK, title, Level.GPU, targets, bound, GPUS, unit="tests")
