"""Checks that compare a BMC's inventory with the profile and the site."""

from appliance.bmc.checks import firmware, identity, parts, state
from appliance.checks.check import BmcCheck

CHECKS: tuple[BmcCheck, ...] = (
    *identity.CHECKS,
    *parts.CHECKS,
    *firmware.CHECKS,
    *state.CHECKS,
)
