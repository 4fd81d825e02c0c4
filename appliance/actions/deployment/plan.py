"""Plan: what a deployment would do, and why; changes nothing, and takes no lock."""

from appliance.actions.deployment.facts_and_plan import plan_session
from appliance.actions.sites.opening import Target, open_session
from appliance.engine.accept.acceptance import acceptance_of
from appliance.engine.look.gather import Round
from appliance.engine.look.run_record import simulated_areas
from appliance.engine.look.survey import view_of
from appliance.engine.plan.selection import Filters, select
from appliance.engine.run.lease import report_held_leases
from appliance.engine.run.readiness import refuse_unready
from appliance.engine.session import Session
from appliance.models.acceptance import Acceptance
from appliance.models.events import Message, Observer
from appliance.models.plan import Plan
from appliance.report.formatting import fold


def make(target: Target, filters: Filters, observer: Observer) -> Plan:
    """The plan that a deployment would start with now."""
    with open_session(target, "plan", observer, installs=True) as session:
        if session.site.provision is not None:
            _report_bare_machines(session)
        planned = plan_session(session, select(session.site, filters))
        chosen = planned.selection.stages
        refuse_unready(session, planned.found, planned.plan, chosen, planned.prepared)
        report_held_leases(session, planned.found.facts)
        whole = planned.plan.model_copy(update={"acceptance": _acceptance(session, planned.found)})
        return session.redact.texts(whole)


def _report_bare_machines(session: Session) -> None:
    # Slow to import, and only needed by sites with an image.
    from appliance.actions.provisioning.new_hosts import never_installed

    if bare := never_installed(session):
        text = f"no SSH key is pinned for {fold(bare)}: appliance deploy first installs those that are off"
        session.tell(Message(text=text, level="warning"))


def _acceptance(session: Session, found: Round) -> Acceptance:
    view = view_of(session, found)
    return acceptance_of(session, view, simulated_areas(session, found.facts))
