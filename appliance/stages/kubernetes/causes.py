"""Why what the cluster knows cannot be had, and why nothing in it can be changed."""

from appliance.checks.causes import Cause, Reach, is_unknown
from appliance.stages.kubernetes import ids

NO_API = Cause(ids.API, "only the API knows them", Reach.SITE, is_unknown)
FULL = Cause(
    ids.ETCD,
    "etcd takes no changes, so that nothing renews its lease or says its state",
    Reach.SITE,
)
