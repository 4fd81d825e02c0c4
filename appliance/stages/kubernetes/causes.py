"""Causes for missing facts of the cluster, and for refused changes."""

from appliance.checks.causes import NAMED_CHECK, Cause, Reach, is_unknown
from appliance.checks.extra_results import REACHABLE
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
