"""Plan: what a deployment would do, and why; changes nothing, not even the lock."""

from appliance.actions.opening import Target, open_session
from appliance.actions.planned import plan_session
from appliance.engine.acceptance import acceptance_of
from appliance.engine.gather import Round
from appliance.engine.lease import tell_held
from appliance.engine.record import simulated_areas
from appliance.engine.selection import Filters, select
from appliance.engine.session import Session
from appliance.engine.survey import view_of
from appliance.models.acceptance import Acceptance
from appliance.models.events import Message, Observer
from appliance.models.plan import Plan
from appliance.report.wording import fold


def make(target: Target, filters: Filters, observer: Observer) -> Plan:
    """The plan a deployment would start with now."""
    with open_session(target, "plan", observer, installs=True) as session:
        if session.site.provision is not None:
            _tell_bare(session)
        planned = plan_session(session, select(session.site, filters))
        tell_held(session, planned.found.facts)
        whole = planned.plan.model_copy(update={"acceptance": _acceptance(session, planned.found)})
        return session.redact.texts(whole)


def _tell_bare(session: Session) -> None:
    # Dear to read, and no site without an image needs it.
    from appliance.engine.strangers import strangers

    if bare := strangers(session):
        text = f"no key is pinned of {fold(bare)}: appliance deploy installs those that are off, before it plans"
        session.tell(Message(text=text, level="warning"))


def _acceptance(session: Session, found: Round) -> Acceptance:
    view = view_of(session, found)
    return acceptance_of(session, view, simulated_areas(session, found.facts))
