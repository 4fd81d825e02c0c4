"""Why what the cluster knows cannot be had."""

from appliance.checks.causes import Cause, Reach, is_unknown
from appliance.stages.kubernetes import ids

NO_API = Cause(ids.API, "only the API knows them", Reach.SITE, is_unknown)
