"""What the scheduler promises its users, as one test each. This tuple is the list of all promises."""

from appliance.acceptance import gpus, limits, placement, sharing, visibility
from appliance.acceptance.promise import Promise

PROMISES: tuple[Promise, ...] = (
    *placement.PROMISES,
    *sharing.PROMISES,
    *gpus.PROMISES,
    *limits.PROMISES,
    *visibility.PROMISES,
)
