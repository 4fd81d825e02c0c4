"""Makes the plan: what each stage would do on each host, and why. Making it changes nothing."""

from collections.abc import Mapping, Sequence

from appliance.checks.check import View
from appliance.engine.look.fact_history import known_facts
from appliance.engine.look.gather import Round
from appliance.engine.look.judge import judge_host, judge_stage
from appliance.engine.look.survey import view_of
from appliance.engine.plan.fingerprint import ALL_MODULES
from appliance.engine.plan.input_changes import changes_since_receipt
from appliance.engine.plan.prepare import Preparation, Prepared
from appliance.engine.plan.restarts import (
    Restarting,
    certain_restarts,
    change_of,
    merged_restarts,
    possible_restarts,
    restarts_of_purge,
)
from appliance.engine.plan.rollout_order import in_rollout_order, leads, waiting_leader
from appliance.engine.plan.selection import Selection
from appliance.engine.session import Session
from appliance.models.facts import Drift, HostFacts, Receipt
from appliance.models.plan import Action, HostStage, Plan
from appliance.models.result import CheckResult, Status
from appliance.models.site import Host
from appliance.stages.base import ids as base_ids
from appliance.stages.base.checks.foreign import purged
from appliance.stages.stage import PINS, Stage
from appliance.text import first_few

FAIL = Status.FAIL


def make_plan(session: Session, found: Round, prepared: Preparation, selection: Selection) -> Plan:
    """Return one cell per stage and host."""
    view = view_of(session, found)
    hosts = [h for h in session.site.hosts if not selection.hosts or h.name in selection.hosts]
    latest = known_facts(session, found)
    cells: list[HostStage] = []
    for stage in selection.stages:
        made = [
            _cell(session, view, found, latest, prepared, stage, host, selection.full)
            for host in hosts
        ]
        cells += _in_order(session, found, latest, prepared, stage, made)
    return Plan(
        site=session.site.name,
        profile=session.profile.name,
        classes={
            host.name: session.profile_of(host.name).name
            for host in hosts
            if session.site.has_classes and host.has_class
        },
        hosts=tuple(h.name for h in hosts),
        stages=tuple(s.name for s in selection.stages),
        cells=tuple(_learning(session, found, prepared, cells, selection.stages)),
    )


def _in_order(
    session: Session,
    found: Round,
    latest: Mapping[str, HostFacts],
    prepared: Preparation,
    stage: Stage,
    cells: list[HostStage],
) -> list[HostStage]:
    """Return the cells in waves; a cell is blocked if a leading host is behind and this plan does not change it."""
    cells = _behind_unfit(session, stage, cells)
    changing = [c for c in cells if c.action.changes]
    if first := lagging(session, stage, changing, latest, prepared):
        gone = "does not answer" if first in found.unanswered else "is left out"
        why = f"waits for {first}, which {gone}"
        blocked = {"action": Action.BLOCKED, "why": f"{why} and comes first", "minutes": 0.0}
        return [c.model_copy(update=blocked) if c.action.changes else c for c in cells]
    return in_rollout_order(session.site, stage, cells)


def _behind_unfit(session: Session, stage: Stage, cells: list[HostStage]) -> list[HostStage]:
    """Block hosts if a leading host is blocked and no leading host has the stage."""
    leading = [c for c in cells if leads(session.site, stage, c.host)]
    unfit = [c.host for c in leading if c.action is Action.BLOCKED]
    if not unfit or any(c.known for c in leading):
        return cells
    update = {
        "action": Action.BLOCKED,
        "why": f"waits for {unfit[0]}, which must finish first",
        "minutes": 0.0,
    }
    return [c.model_copy(update=update) if c.action.changes else c for c in cells]


def lagging(
    session: Session,
    stage: Stage,
    cells: Sequence[HostStage],
    facts: Mapping[str, HostFacts],
    prepared: Preparation,
) -> str:
    """See rollout_order.behind."""
    if not cells or not stage.rolls_first:
        return ""
    variables = {host: p.variables for (name, host), p in prepared.items() if name == stage.name}
    return waiting_leader(session.site, stage, cells, facts, variables)


def _learning(
    session: Session,
    found: Round,
    prepared: Preparation,
    cells: Sequence[HostStage],
    stages: tuple[Stage, ...],
) -> list[HostStage]:
    """Mark finished cells as open if a stage they learn from will run, and name what they would restart."""
    pending = {c.stage for c in cells if c.action.changes}
    learners = {s.name: s for s in stages if not pending.isdisjoint(s.facts_from)}

    def learning(cell: HostStage, stage: Stage) -> HostStage:
        teachers = [t for t in stage.facts_from if t in pending]
        host, facts = session.site.host(cell.host), found.facts[cell.host]
        update = {
            "why": f"checked again after {first_few(teachers)}",
            "may_restart": possible_restarts(stage, host, facts, prepared[cell.stage, cell.host]),
        }
        return cell.model_copy(update=update)

    return [
        learning(c, learners[c.stage]) if c.action is Action.SKIP and c.stage in learners else c
        for c in cells
    ]


def _cell(
    session: Session,
    view: View,
    found: Round,
    latest: Mapping[str, HostFacts],
    prepared: Preparation,
    stage: Stage,
    host: Host,
    full: bool,
) -> HostStage:
    known = prepared.get((stage.name, host.name))
    if known is None:
        return HostStage(stage=stage.name, host=host.name, action=Action.NOT_CONCERNED)
    if host.name in found.unanswered:
        cause = found.unanswered[host.name].cause
        return HostStage(stage=stage.name, host=host.name, action=Action.UNKNOWN, why=cause)
    facts = found.facts[host.name]
    receipt = facts.receipts.get(stage.name)
    action, why = _reason(session, view, stage, host, known, receipt, full)
    if action is Action.SKIP:
        return HostStage.done(stage.name, host.name, known.fingerprint)
    if action.changes and receipt is None and (lacks := _missing(view, stage, host)):
        return HostStage(stage=stage.name, host=host.name, action=Action.BLOCKED, why=lacks)
    leaves = stage.is_removal(session.site, host, facts)
    if leaves and (why_not := stage.kept_by(session.site, found.facts)):
        return HostStage(stage=stage.name, host=host.name, action=Action.BLOCKED, why=why_not)
    if not leaves and (against := stage.blocked_by(session.site, host, found.facts)):
        return HostStage(stage=stage.name, host=host.name, action=Action.BLOCKED, why=against)
    drifted = receipt.drift if receipt and action is Action.REPAIR else ()
    pins = {d.name: d.expected for d in drifted if d.kind == "package"}
    purge = purged(session.site, facts) if action.changes and base_ids.PURGE in stage.checks else ()
    drain = action.changes and stage.drains(host, latest[host.name], known.variables)
    if drain and action is Action.RUN:
        why = stage.plan_note(session.site, host, latest[host.name], known.variables) or why
    restarted = merged_restarts(
        [_restarted(session, view, stage, host, known, receipt), restarts_of_purge(purge, facts)]
        if action.changes and not leaves
        else []
    )
    return HostStage(
        stage=stage.name,
        host=host.name,
        action=action,
        why=why,
        differences=tuple(map(_difference, drifted)),
        minutes=_minutes(session, stage, host.name, drain) if action.changes else 0.0,
        reboot=action.changes and stage.reboots(host, facts, known.variables | {PINS: pins}),
        drain=drain,
        known=receipt is not None,
        fingerprint=known.fingerprint,
        pins=pins,
        purge=purge,
        restarts=restarted.sure,
        may_restart=restarted.maybe,
    )


def _restarted(
    session: Session,
    view: View,
    stage: Stage,
    host: Host,
    known: Prepared,
    receipt: Receipt | None,
) -> Restarting:
    """Return what a changing cell restarts; if the stage fails its checks on the host, include what its tasks do about that."""
    if not stage.restarts:
        return Restarting()
    facts = view.facts[host.name]
    if receipt is None:
        return certain_restarts(stage, host, facts, known, None)
    told = judge_stage(view, host, stage)
    unfit = any(r.status is FAIL and r.id in stage.checks for r in told)
    unfit = unfit or (stage.name, host.name) in view.unproved
    return certain_restarts(
        stage, host, facts, known, change_of(session, receipt, known, unfit=unfit)
    )


def _reason(
    session: Session,
    view: View,
    stage: Stage,
    host: Host,
    known: Prepared,
    receipt: Receipt | None,
    full: bool,
) -> tuple[Action, str]:
    errors = view.facts[host.name].errors
    if receipt is None:
        if "receipts" in errors and not view.facts[host.name].receipts:
            return Action.RUN, f"unknown whether it is finished: {errors['receipts']}"
        failed = session.journal.last("host_failed", stage=stage.name, host=host.name)
        return (
            Action.RUN,
            f"failed last time: {failed.data.get('cause')}" if failed else "not done yet",
        )
    if stage.is_removal(session.site, host, view.facts[host.name]):
        return Action.RUN, "no longer enabled in the site: its changes will be removed"
    if full:
        return Action.RUN, "--full"
    if receipt.fingerprint != known.fingerprint:
        return Action.RUN, _changed(session, stage, receipt, known)
    if receipt.drift:
        return Action.REPAIR, first_few([_difference(d) for d in receipt.drift])
    if receipt.unread:
        unread = f"{receipt.unread} of its {receipt.resources} resources could not be compared"
        return Action.REPAIR, f"{unread}: {errors.get('receipts', '')}"
    told = judge_stage(view, host, stage)
    broken = [r for r in told if r.status is FAIL and r.id in stage.checks]
    if broken:
        return Action.REPAIR, first_few([_short(r) for r in broken])
    if cause := view.unproved.get((stage.name, host.name)):
        return Action.REPAIR, f"not passed since it failed: {cause}"
    return Action.SKIP, ""


def _missing(view: View, stage: Stage, host: Host) -> str:
    """Name what a host lacks for a stage it has never had; unknown counts as lacking."""
    found = judge_host(view, host, stage.needs)
    open_ = [r for r in found if r.status not in {Status.PASS, Status.WARN}]
    return "; ".join(f"{r.cause}: {r.fix}" if r.fix else f"not known: {r.cause}" for r in open_)


def _changed(session: Session, stage: Stage, receipt: Receipt, known: Prepared) -> str:
    if ALL_MODULES in receipt.inputs:
        return "its receipt is from release 0.1.0 or older, which did not record modules separately"
    names = changes_since_receipt(session, stage.name, receipt, known) if receipt.inputs else []
    return f"changed: {first_few(names) or 'its inputs'}"


def _difference(drift: Drift) -> str:
    return f"{drift.kind} {drift.name} ({drift.expected} → {drift.found})"


def _short(result: CheckResult) -> str:
    return f"{result.id}: {result.cause}"


def _minutes(session: Session, stage: Stage, host: str, drain: bool) -> float:
    """A change that needs a free host takes at least the stage's estimate: the last run may have changed little."""
    last = minutes_of(session, stage, host)
    return max(last, stage.minutes) if drain else last


def minutes_of(session: Session, stage: Stage, host: str) -> float:
    """Return the duration of the last run, or the stage's own estimate."""
    last = session.journal.last("host_done", stage=stage.name, host=host)
    seconds = last.data.get("seconds") if last else None
    if not isinstance(seconds, int | float) or seconds < 0:
        return stage.minutes
    return float(seconds) / 60
