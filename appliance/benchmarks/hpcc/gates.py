"""The gates of processors and their memory: STREAM and HPL of each host, if a limit is set."""

from appliance.benchmarks.benchmark import Requirement, per_host
from appliance.benchmarks.gating import gate, gpu_hosts
from appliance.checks.check import View
from appliance.models.acceptance import Level
from appliance.models.bound import Bound

STREAM, HPL = "hpcc.stream", "hpcc.hpl"
CHECKS = (STREAM, HPL)
BOUNDS = {STREAM: Bound("GB/s"), HPL: Bound("GFLOPS")}


def gates(view: View) -> tuple[Requirement, ...]:
    """STREAM and HPL of each host."""
    found: tuple[Requirement, ...] = ()
    for check in CHECKS:
        title, targets = (
            f"{check.partition('.')[2].upper()} on processors",
            per_host(gpu_hosts(view)),
        )
        bound = view.limit(check)
        found += gate(view, check, title, Level.HOST, targets, bound, ("base",), of_gpus=False)
    return found
