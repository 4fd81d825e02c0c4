"""Conditions under which a failure of a GPU explains other results."""

from appliance.models.result import CheckResult

HEAT = 0x40
"""NVML clock event reason: hardware thermal slowdown."""
FELL_OFF = 79
"""Xid of a GPU that has fallen off the bus (NVIDIA, Xid catalog)."""

FOLLOWERS = (45, 154)
"""Xids that the driver logs after another Xid: the end of the GPU's jobs, and the recommended recovery (NVIDIA, Xid catalog)."""


def logs_the_loss(cause: CheckResult, effect: CheckResult) -> bool:
    """Return whether the effect is the Xid of a missing GPU."""
    del cause
    return effect.unit == "Xid" and effect.value == FELL_OFF


def follows(cause: CheckResult, effect: CheckResult) -> bool:
    """Return whether the driver logs the effect after another Xid of the same GPU."""
    return effect.unit == "Xid" and effect.value in FOLLOWERS and cause.value not in FOLLOWERS


def slowed_by_heat(cause: CheckResult, effect: CheckResult) -> bool:
    """Return whether the effect's clock event reasons include heat."""
    del cause
    reasons = str(effect.value)
    return reasons.startswith("0x") and bool(int(reasons, 16) & HEAT)


def counted_at_address(cause: CheckResult, effect: CheckResult) -> bool:
    """Return whether the count contains an address: that GPU is on the bus but does not answer."""
    del cause
    return bool(effect.parts)


def named_by(cause: CheckResult, effect: CheckResult) -> bool:
    """Return whether the effect names the GPU of the cause."""
    return cause.target in effect.names
