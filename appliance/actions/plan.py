"""Plan: what a deployment would do, and why; changes nothing, not even the lock."""

from appliance.actions.opening import Target, open_session
from appliance.actions.planned import Filters, plan_session
from appliance.actions.validation import with_validation
from appliance.models.events import Observer
from appliance.models.plan import Plan


def make(target: Target, filters: Filters, observer: Observer) -> Plan:
    """The plan a deployment would start with now."""
    with open_session(target, "plan", observer) as session:
        planned = plan_session(session, filters)
        return with_validation(session, planned, filters)
