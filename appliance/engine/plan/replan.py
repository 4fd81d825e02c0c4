"""Updates a stage after those before it ran: new facts, variables and fingerprint, and new failures."""

from collections.abc import Mapping, Sequence

from appliance.engine.look.fact_history import known_facts, store_facts
from appliance.engine.look.survey import survey
from appliance.engine.plan.input_changes import changes_between
from appliance.engine.plan.planning import minutes_of
from appliance.engine.plan.prepare import Preparation, prepare
from appliance.engine.session import Session
from appliance.models.facts import HostFacts
from appliance.models.plan import Action, HostStage
from appliance.stages.stage import Stage, never
from appliance.text import first_few


def replan(
    session: Session,
    stage: Stage,
    cells: Sequence[HostStage],
    prepared: Preparation,
    teachers: Sequence[str],
    silent: frozenset[str] = frozenset(),
) -> tuple[list[HostStage], Preparation]:
    """Return the stage's cells and preparation for the current hosts; a finished cell with changed inputs runs again.

    ``teachers``: stages that ran and that it learns from. ``silent``: unreachable hosts, which are not asked.
    """
    asked = [h.name for h in session.site.hosts if h.name not in silent]
    found = survey(session, asked)
    store_facts(session, found)
    facts = known_facts(session, found)
    anew = prepare(session, facts, (stage,))
    learned = [_cell(session, stage, c, prepared, anew, teachers) for c in cells]
    return [_without_surprise(session, stage, c, anew, facts) for c in learned], anew


def judged_again(
    session: Session,
    stage: Stage,
    cells: Sequence[HostStage],
    broken: Mapping[tuple[str, str], str],
) -> list[HostStage]:
    """Return the stage's cells; a finished cell runs if its checks fail since an earlier stage ran (``broken``).

    Example: a host that drained itself and that stage storage repaired. Stages that reboot or drain wait for a plan
    that names it.
    """
    if not (stage.reboots is never and stage.drains is never):
        return list(cells)
    return [_broken(session, stage, c, broken.get((stage.name, c.host), "")) for c in cells]


def _broken(session: Session, stage: Stage, cell: HostStage, why: str) -> HostStage:
    if cell.action is not Action.SKIP or not why:
        return cell
    minutes = minutes_of(session, stage, cell.host)
    return cell.model_copy(update={"action": Action.REPAIR, "why": why, "minutes": minutes})


def _without_surprise(
    session: Session,
    stage: Stage,
    cell: HostStage,
    now: Preparation,
    facts: Mapping[str, HostFacts],
) -> HostStage:
    """The operator has not consented to a reboot that the plan did not name, so such a cell waits for a plan that does."""
    if cell.reboot or not cell.action.changes or (stage.name, cell.host) not in now:
        return cell
    host = session.site.host(cell.host)
    if not stage.reboots(host, facts.get(cell.host), now[stage.name, cell.host].variables):
        return cell
    why = f"{cell.why}; it would reboot {cell.host}, and the plan did not include a reboot: deploy again"
    return cell.model_copy(update={"action": Action.BLOCKED, "why": why.removeprefix("; ")})


def _cell(
    session: Session,
    stage: Stage,
    cell: HostStage,
    before: Preparation,
    now: Preparation,
    teachers: Sequence[str],
) -> HostStage:
    key = (stage.name, cell.host)
    if key not in now or now[key].fingerprint == cell.fingerprint:
        return cell
    learned: dict[str, object] = {"fingerprint": now[key].fingerprint}
    if cell.action is Action.SKIP:
        changed = first_few(changes_between(session, before[key], now[key]))
        learned |= {
            "action": Action.RUN,
            "why": f"changed by {first_few(teachers)}: {changed}",
            "minutes": minutes_of(session, stage, cell.host),
        }
    return cell.model_copy(update=learned)
