"""Facts and plan, as ``plan`` shows them and ``deploy`` carries them out."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from appliance.engine.cluster import with_cluster
from appliance.engine.earlier import known_facts, remember
from appliance.engine.fingerprint import files_of
from appliance.engine.gather import Round
from appliance.engine.planning import make_plan
from appliance.engine.posture import keep_postures
from appliance.engine.prepare import Preparation, prepare
from appliance.engine.remaining import remaining
from appliance.engine.requests import Beside
from appliance.engine.selection import Selection
from appliance.engine.session import Session
from appliance.engine.survey import survey
from appliance.models.events import FactsTaken
from appliance.models.plan import Plan


@dataclass(frozen=True)
class Planned:
    """A plan with all that is needed to carry it out."""

    found: Round
    plan: Plan
    selection: Selection
    prepared: Preparation


def take_facts(
    session: Session,
    enough: Callable[[Round], bool] = lambda _: True,
    seconds: float = 0.0,
    beside: Beside = Beside.NOTHING,
    meanwhile: Callable[[], object] = lambda: None,
) -> Round:
    """Facts of all hosts, remembered in the journal; asked for anew until ``enough`` or ``seconds`` are over."""
    started = time.monotonic()
    found = survey(session, beside=beside, meanwhile=meanwhile)
    while not enough(found) and time.monotonic() < started + seconds:
        if session.cancelled.wait(1.0):
            break
        found = survey(session, beside=beside)
    remember(session, found)
    keep_postures(session, found)
    session.tell(
        FactsTaken(
            hosts=tuple(h.name for h in session.site.hosts),
            unreachable={n: u.cause for n, u in found.unanswered.items()},
            seconds=time.monotonic() - started,
        )
    )
    return found


def plan_session(
    session: Session, selection: Selection, meanwhile: Callable[[], object] = lambda: None
) -> Planned:
    """Takes facts and plans; changes nothing. ``meanwhile``: what the caller can do while hosts are asked."""

    def ready() -> None:
        for stage in selection.stages:
            files_of(stage, session.data)
        meanwhile()

    found = take_facts(session, meanwhile=ready)
    chosen = selection.with_departing(session.site, found.facts)
    prepared = prepare(session, known_facts(session, found), chosen.stages)
    plan = make_plan(session, found, prepared, chosen)
    left = remaining(session, found, chosen, plan)
    whole = with_cluster(session, found, chosen, plan.model_copy(update={"results": left}))
    return Planned(found, whole, chosen, prepared)
