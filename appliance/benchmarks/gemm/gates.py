"""The gates of each single GPU: its matrix products and its memory, if a limit is set."""

from appliance.benchmarks.benchmark import Requirement, per_host
from appliance.benchmarks.gating import GPUS, gate, gpu_hosts
from appliance.checks.check import View
from appliance.models.acceptance import Level
from appliance.models.bound import Bound
from appliance.models.gpu_counts import gpu_count

RATE, MEMORY = "gemm.rate", "gemm.memory"
CHECKS = (RATE, MEMORY)
BOUNDS = {RATE: Bound("TFLOPS"), MEMORY: Bound("GB/s")}
TITLES = {RATE: "Matrix products of every GPU", MEMORY: "Memory bandwidth of every GPU"}


def gates(view: View) -> tuple[Requirement, ...]:
    """Every GPU of every host, at the required rate and bandwidth."""
    targets = tuple(
        target
        for host in gpu_hosts(view)
        for index in range(gpu_count(view.profile, view.site.host(host)))
        for target in per_host((host,), f"GPU {index}")
    )
    found: tuple[Requirement, ...] = ()
    for check in CHECKS:
        bound = view.limit(check)
        found += gate(view, check, TITLES[check], Level.GPU, targets, bound, GPUS)
    return found
