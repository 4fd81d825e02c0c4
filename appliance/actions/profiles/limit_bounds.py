"""The names and bounds of a profile's limits."""

from appliance.benchmarks import BENCHMARKS
from appliance.models.bound import Bounds
from appliance.stages.catalog import EVERY_CHECK


def check_ids() -> Bounds:
    """The id of every check and benchmark, each with the bounds of its limit."""
    measured = {i: b.bounds.get(i) for b in BENCHMARKS for i in b.checks}
    return {c.id: c.bound for c in EVERY_CHECK} | measured
