"""Conditions under which a failure of a GPU explains other results."""

from appliance.models.result import CheckResult

HEAT = 0x40
"""NVML clock event reason: slowed down by the hardware because of heat."""
FELL_OFF = 79
"""The Xid a driver logs of a GPU that has fallen off the bus (NVIDIA, Xid catalog)."""

FOLLOWERS = (45, 154)
"""Xids that the driver logs after another one: the end of the GPU's jobs, and the recommended recovery (NVIDIA, Xid catalog)."""


def logs_the_loss(cause: CheckResult, effect: CheckResult) -> bool:
    """The effect is the Xid of a GPU that is gone."""
    del cause
    return effect.unit == "Xid" and effect.value == FELL_OFF


def follows(cause: CheckResult, effect: CheckResult) -> bool:
    """The effect is a message that the driver logs after another Xid of the same GPU."""
    return effect.unit == "Xid" and effect.value in FOLLOWERS and cause.value not in FOLLOWERS


def slowed_by_heat(cause: CheckResult, effect: CheckResult) -> bool:
    """The effect's clock event reasons name heat."""
    del cause
    reasons = str(effect.value)
    return reasons.startswith("0x") and bool(int(reasons, 16) & HEAT)


def counted_at_address(cause: CheckResult, effect: CheckResult) -> bool:
    """The count names an address: that GPU is on the bus and does not answer."""
    del cause
    return bool(effect.parts)


def named_by(cause: CheckResult, effect: CheckResult) -> bool:
    """The effect names the GPU that the cause is of."""
    return cause.target in effect.names
