"""Facts and plan, as shown by ``plan`` and applied by ``deploy``."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from appliance.engine.look.fact_history import known_facts, store_facts
from appliance.engine.look.gather import Round
from appliance.engine.look.posture import keep_postures
from appliance.engine.look.probe_requests import Beside
from appliance.engine.look.survey import survey
from appliance.engine.plan.fingerprint import files_of
from appliance.engine.plan.planning import make_plan
from appliance.engine.plan.prepare import Preparation, prepare
from appliance.engine.plan.selection import Selection
from appliance.engine.plan.unfixed import unfixed_results
from appliance.engine.run.cluster_stages import with_cluster
from appliance.engine.session import Session
from appliance.models.events import FactsTaken
from appliance.models.plan import Plan


@dataclass(frozen=True)
class Planned:
    """A plan with everything needed to apply it."""

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
    """Facts of all hosts, stored in the journal; collected again until ``enough`` or until ``seconds`` have passed."""
    started = time.monotonic()
    found = survey(session, beside=beside, meanwhile=meanwhile)
    while not enough(found) and time.monotonic() < started + seconds:
        if session.cancelled.wait(1.0):
            break
        found = survey(session, beside=beside)
    store_facts(session, found)
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
    """Collects facts and plans; changes nothing. ``meanwhile``: work of the caller while hosts are contacted."""

    def ready() -> None:
        for stage in selection.stages:
            files_of(stage, session.data)
        meanwhile()

    found = take_facts(session, meanwhile=ready)
    chosen = selection.with_departing(session.site, found.facts)
    prepared = prepare(session, known_facts(session, found), chosen.stages)
    plan = make_plan(session, found, prepared, chosen)
    left = unfixed_results(session, found, chosen, plan)
    whole = with_cluster(session, found, chosen, plan.model_copy(update={"results": left}))
    return Planned(found, whole, chosen, prepared)
