"""Causes for missing facts of the cluster, and for refused changes."""

from appliance.checks.causes import NAMED_CHECK, Cause, Reach, is_unknown
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
