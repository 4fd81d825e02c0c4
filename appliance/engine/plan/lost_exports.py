"""Exported folders that no longer exist: stage storage would create empty ones, and users' data would be missing without a word."""

from appliance.engine.look.gather import Round
from appliance.engine.look.survey import view_of
from appliance.engine.session import Session
from appliance.errors import ApplianceError
from appliance.models.plan import Plan
from appliance.stages.storage.checks import lost_fix, lost_folders

STORAGE = "storage"


def refuse_lost_exports(session: Session, found: Round, plan: Plan) -> None:
    """Raises ApplianceError if stage storage would run on a host whose exported folder no longer exists."""
    view = view_of(session, found)
    for cell in plan.pending():
        facts = found.facts.get(cell.host)
        if cell.stage != STORAGE or facts is None:
            continue
        for name in lost_folders(view, session.site.host(cell.host), facts):
            raise ApplianceError(
                f"{name} of {cell.host} no longer exists, and with it the data of users; stage storage would create an empty one",
                lost_fix(facts, name, name),
            )
