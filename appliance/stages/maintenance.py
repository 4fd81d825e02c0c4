"""The judgement of a host that an operator keeps out of work: the schedulers' checks share it."""

from appliance.checks.check import not_assessed
from appliance.models.drain import Maintenance
from appliance.models.result import Judgement, Kind


def in_maintenance(host: str, planned: Maintenance, limit: str) -> Judgement:
    """Return that the host is not judged: since when, by whom, and why."""
    fix = f"when the work is done: appliance node return {host}"
    told = {"fix": fix, "limit": limit, "kind": Kind.MAINTENANCE}
    return not_assessed(host, f"{planned.text}; not judged", **told)
