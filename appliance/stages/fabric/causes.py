"""Causes that several checks of the fabric have."""

from appliance.checks.causes import Cause, Reach, is_unknown
from appliance.models.result import CheckResult


def names_part(cause: CheckResult, effect: CheckResult) -> bool:
    """The cause is of an adapter the effect speaks of, or names it."""
    return not {*cause.parts, *cause.names}.isdisjoint(effect.parts)


PORT_MISSING = Cause(
    "fabric.ports", "the adapter that is missing is the one they speak of", when=names_part
)
NO_PORT = Cause("fabric.ports", "without a port there is nothing to judge", when=is_unknown)
OTHER_FABRIC = Cause("fabric.sm", "its ports hang on another fabric")
LINK_DOWN = Cause("fabric.state", "the port's link is down", Reach.PART)


def waits_for_all(cause: CheckResult, effect: CheckResult) -> bool:
    """No subnet manager anywhere, and the port waits for one."""
    return cause.host is None and "INIT" in str(effect.value).upper()
