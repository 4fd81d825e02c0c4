"""Causes for missing facts of the cluster, and for refused changes."""

from dataclasses import replace

from appliance.checks.causes import NAMED_CHECK, Cause, Reach, both, is_unknown
from appliance.checks.extra_results import REACHABLE
from appliance.models.result import CheckResult
from appliance.stages.base import ids as base_ids
from appliance.stages.kubernetes import ids

UNFIT = Cause(NAMED_CHECK, "the host's own watch reports it unfit for pods")
NO_API = Cause(ids.API, "only the API has this information", Reach.SITE, is_unknown)
FULL = Cause(
    ids.ETCD,
    "etcd does not commit writes in time, so nodes cannot renew leases or report status",
    Reach.SITE,
)
EXPIRED = Cause(
    ids.CERTIFICATES,
    "connections with the expired certificate are refused",
    when=lambda cause, effect: isinstance(cause.value, int | float) and cause.value <= 0,
)
INVALID_S = 300
"""Minimum error of a clock in seconds: the controller manager's signer dates certificates back by five minutes."""
DAY_S = 86400
WRONG_TIME = Cause(
    base_ids.CLOCK_SPREAD,
    "at that host's time certificates have expired or are not valid yet",
    Reach.SITE,
    lambda cause, effect: (
        cause.names == (effect.host,)
        and isinstance(cause.value, int | float)
        and cause.value >= INVALID_S
        and effect.value != "cordoned"
    ),
)


def _in_right_time(cause: CheckResult, effect: CheckResult) -> bool:
    """Return whether a certificate, by its days left, is valid once the clock is right."""
    left, off, least = effect.value, cause.value, effect.limit
    return (
        isinstance(left, int | float)
        and isinstance(off, int | float)
        and left + off / DAY_S >= (least if isinstance(least, int | float) else 0)
    )


WRONG_DATE = replace(WRONG_TIME, when=both(WRONG_TIME.when, _in_right_time))
"""Value of results about the certificates themselves."""
UNPLACED = "Unschedulable"
"""The value of a failure about pods that the scheduler cannot place."""
PRESSURE = "pressure"
"""The value of a node whose kubelet lacks disk, memory or process IDs."""


def _presses(cause: CheckResult, effect: CheckResult) -> bool:
    del effect
    return cause.value == PRESSURE


PRESSED = Cause(
    ids.NODES, "kubelet evicts pods, and removes unused images from a full disk", when=_presses
)
NO_PLACE = Cause(
    ids.NODES,
    "that host accepts no new pods",
    Reach.SITE,
    lambda cause, effect: _presses(cause, effect) and effect.value == UNPLACED,
)
NO_SPARE = Cause(
    REACHABLE,
    "without that host etcd has no spare member, so each write waits for all others",
    Reach.NAMED,
)
NO_ROUTES = Cause(
    base_ids.FAILED_UNITS,
    "this host has no routes to the pods of other hosts",
    when=lambda cause, effect: "appliance-pod-routes.service" in cause.names,
)
