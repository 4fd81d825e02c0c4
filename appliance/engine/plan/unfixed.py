"""Findings that no stage of a plan fixes: a deployment is not the remedy for everything."""

from collections import Counter
from collections.abc import Sequence

from appliance.engine.look.gather import Round
from appliance.engine.look.judge import OF_HARDWARE, judge_all
from appliance.engine.look.survey import view_of
from appliance.engine.plan.selection import Selection
from appliance.engine.session import Session
from appliance.models.plan import Action, HostStage, Plan
from appliance.models.result import COMPLAINTS, CheckResult, Kind
from appliance.models.site import Role
from appliance.report.findings import Roots
from appliance.stages.base import ids as base_ids
from appliance.stages.catalog import STAGES


def unfixed_results(
    session: Session, found: Round, selection: Selection, plan: Plan
) -> tuple[CheckResult, ...]:
    """Return failures of the hardware and of finished selected stages that the plan does not fix."""
    wrong = _wrong(session, found, selection)
    mended = _mended(session, plan, wrong) | _put_back(found, plan)
    roots = Roots(wrong)
    return tuple(r for r in wrong if not {r.name, roots.of(r).name} & mended)


def _wrong(session: Session, found: Round, selection: Selection) -> list[CheckResult]:
    view = view_of(session, found)
    ids = {i for stage in selection.stages for i in (*stage.checks, *stage.symptoms)}
    return [
        result
        for result in judge_all(view, found, ids | OF_HARDWARE)
        if result.status in COMPLAINTS
        and (result.host is None or not selection.hosts or result.host in selection.hosts)
    ]


def _put_back(found: Round, plan: Plan) -> set[str]:
    """Return the drift of hosts on which every affected stage is applied again."""
    pending = {(cell.stage, cell.host) for cell in plan.pending()}
    return {
        f"{base_ids.DRIFT} {host}"
        for host, facts in found.facts.items()
        if all((stage, host) in pending for stage, r in facts.receipts.items() if r.drift)
    }


def _mended(session: Session, plan: Plan, wrong: Sequence[CheckResult]) -> set[str]:
    """Return what a stage that runs proves of a host; of the cluster, if it runs on all its hosts or visits them one by one.

    What the site lists and the host lacks, the stage creates; that of the cluster, on the first control host.
    """
    proofs = {stage.name: frozenset(stage.checks) for stage in STAGES}
    of_host: dict[str | None, list[CheckResult]] = {}
    for result in wrong:
        of_host.setdefault(result.host, []).append(result)
    whole = _whole(session, plan) if None in of_host else set()
    return _created(session, plan, wrong) | {
        result.name
        for cell in plan.pending()
        for host in (cell.host, *([None] if cell.drain or cell.stage in whole else []))
        for result in of_host.get(host, ())
        if result.id in proofs.get(cell.stage, ())
    }


def _created(session: Session, plan: Plan, wrong: Sequence[CheckResult]) -> set[str]:
    first = next((host.name for host in session.site.with_role(Role.CONTROL)), "")
    of_stage = {id_: stage.name for stage in STAGES for id_ in stage.symptoms}
    pending = {(cell.stage, cell.host) for cell in plan.pending()}
    return {
        result.name
        for result in wrong
        if result.kind is Kind.UNWRITTEN
        and (of_stage.get(result.id), result.host or first) in pending
    }


def _whole(session: Session, plan: Plan) -> set[str]:
    """Return stages that run on every host they concern."""
    if len(plan.hosts) < len(session.site.hosts):
        return set()
    settled = Counter(cell.stage for cell in plan.cells if _settled(cell))
    return {stage for stage, hosts in settled.items() if hosts == len(plan.hosts)}


def _settled(cell: HostStage) -> bool:
    return cell.action.changes or cell.action is Action.NOT_CONCERNED
