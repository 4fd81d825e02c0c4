"""The gate of a burn-in: the hours that site or profile set, on every host, without a failure during them."""

from appliance.benchmarks.benchmark import Requirement, per_host
from appliance.benchmarks.gating import FABRIC, gate, gpu_hosts
from appliance.checks.check import View
from appliance.models.acceptance import Level
from appliance.models.bound import Bound

DONE, CLOCKS, HEAT, ERRORS, RATE = (
    "burnin.done",
    "burnin.clocks",
    "burnin.heat",
    "burnin.errors",
    "burnin.rate",
)
CHECKS = (DONE, CLOCKS, HEAT, ERRORS, RATE)
MINUTES = 480
"""The procedure of ClusterMAX 3.0: GPUs and fabric together for eight hours."""
BOUNDS = {DONE: Bound("h")}


def gates(view: View) -> tuple[Requirement, ...]:
    """The required hours, on every host, without a failure during them."""
    bound, also = view.limit(DONE), (CLOCKS, HEAT, ERRORS)
    title = f"Burn-in of {bound.value} h" if bound else ""
    targets = per_host(gpu_hosts(view))
    return gate(view, DONE, title, Level.BURN_IN, targets, bound, FABRIC, also, spans=True)
