"""Why what the cluster knows cannot be had."""

from appliance.checks.causes import Cause, Reach, is_unknown

NO_API = Cause("kubernetes.api", "only the API knows them", Reach.SITE, is_unknown)
