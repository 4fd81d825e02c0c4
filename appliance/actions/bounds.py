"""What a profile's limits may name."""

from appliance.benchmarks import BENCHMARKS
from appliance.models.bound import Bounds
from appliance.stages.catalog import EVERY_CHECK


def check_ids() -> Bounds:
    """The id of every check and benchmark, each with what a limit may be."""
    measured = {i: b.bounds.get(i) for b in BENCHMARKS for i in b.checks}
    return {c.id: c.bound for c in EVERY_CHECK} | measured
