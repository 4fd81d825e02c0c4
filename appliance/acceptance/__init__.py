"""Promises of the scheduler to its users, one test each. This tuple lists all of them."""

from appliance.acceptance import gpus, limits, placement, sharing, visibility
from appliance.acceptance.promise import Promise

PROMISES: tuple[Promise, ...] = (
    *placement.PROMISES,
    *sharing.PROMISES,
    *gpus.PROMISES,
    *limits.PROMISES,
    *visibility.PROMISES,
)
