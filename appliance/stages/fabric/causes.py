"""Conditions under which one fault of the fabric explains another."""

from appliance.checks.causes import Cause, Reach, is_unknown
from appliance.models.result import CheckResult
from appliance.stages.fabric import ids


def names_part(cause: CheckResult, effect: CheckResult) -> bool:
    """Return whether cause and effect concern the same adapter."""
    return not {*cause.parts, *cause.names}.isdisjoint(effect.parts)


PORT_MISSING = Cause(ids.PORTS, "these results concern the missing adapter", when=names_part)
NO_PORT = Cause(ids.PORTS, "the host has no port to check", when=is_unknown)
OTHER_FABRIC = Cause(ids.SM, "its ports are connected to another fabric")
LINK_DOWN = Cause(ids.STATE, "the port's link is down", Reach.PART)


def waits_for_all(cause: CheckResult, effect: CheckResult) -> bool:
    """Return whether no subnet manager exists and the port waits for one."""
    return cause.host is None and "INIT" in str(effect.value).upper()
