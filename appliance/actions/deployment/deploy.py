"""Deploy: facts, plan, consent, apply, verification, report; the one verb that changes hosts."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

from appliance import __version__
from appliance.actions.deployment.facts_and_plan import Planned, plan_session, take_facts
from appliance.actions.deployment.run_scope import Scope, scope_of
from appliance.actions.sites.interrupts import INTERRUPTED, interruptible
from appliance.actions.sites.opening import Target, open_session
from appliance.checks.check import Nature
from appliance.engine.accept.acceptance import with_acceptance
from appliance.engine.accept.declared_site import record_declared
from appliance.engine.accept.deployment_state import record_deployment
from appliance.engine.host_names import named_hosts
from appliance.engine.look.gather import Round
from appliance.engine.look.judge import judge_all
from appliance.engine.look.probe_requests import ALL_CHECK_IDS, Beside
from appliance.engine.look.run_record import Findings, ready_to_save, record_of, save
from appliance.engine.look.shared_baseline import record_accepted
from appliance.engine.look.survey import view_of
from appliance.engine.plan.leaving_hosts import refuse_leaving
from appliance.engine.plan.lost_exports import refuse_lost_exports
from appliance.engine.plan.selection import Filters, select
from appliance.engine.run.apply import apply
from appliance.engine.run.cluster_stages import noticed, run_cluster_stage
from appliance.engine.run.contradictions import drain_contradicting
from appliance.engine.run.lease import MayTakeOver, hosts_changed, leased_by_run
from appliance.engine.run.leaving_cluster import refuse_leaving_pods
from appliance.engine.run.readiness import refuse_unready
from appliance.engine.run.rollout import resume_left_drained
from appliance.engine.session import Session
from appliance.errors import ApplianceError
from appliance.models.events import CheckDone, Message, Observer, RunFinished, RunStarted
from appliance.models.plan import Action, Plan
from appliance.models.result import Kind, Status, Verdict, lacking
from appliance.models.run import RunRecord, StageOutcome, StageState
from appliance.models.site import Site
from appliance.report.formatting import fold
from appliance.stages.base.checks.room import is_of_room
from appliance.stages.catalog import CHECKS, STAGES

_GOOD = {Verdict.PASSED.exit_code, Verdict.INCOMPLETE.exit_code}
_FINISHED = {StageState.DONE, StageState.SKIPPED}
_BESIDE = {c.id for c in CHECKS if c.nature in {Nature.SYMPTOM, Nature.HARDWARE}}
"""Checks of the hosts that belong to no stage: health shows their remedies."""
_PATIENT = frozenset({Kind.WAITS, Kind.MAINTENANCE})
"""What an operator ends, however long a deployment waits."""


@dataclass(frozen=True)
class Deployed:
    """The result of a deployment; ``record`` is None if the user declined."""

    record: RunRecord | None
    exit_code: int
    report: str = ""
    site: Site | None = None

    @property
    def goes_on(self) -> bool:
        """Whether deploying again is the next step.

        It is not if every stage is finished and the failing checks belong to none: a foreign file, a faulty GPU.
        """
        if self.record is None or self.exit_code in _GOOD:
            return False
        if self.exit_code != Verdict.FAILED.exit_code:
            return True
        if any(o.state not in _FINISHED for o in self.record.outcomes):
            return True
        bad = {r.id for r in self.record.results if r.status in {Status.FAIL, Status.ERROR}}
        return not bad <= _BESIDE


def blocked_reasons(plan: Plan) -> list[str]:
    """One line for each reason why stages wait; a plan without changes is not shown."""
    hosts: dict[tuple[str, str], list[str]] = {}
    for cell in plan.blocked:
        hosts.setdefault((cell.stage, cell.why), []).append(cell.host)
    return [
        f"stage {stage} of {fold(names)} is blocked: {why}" for (stage, why), names in hosts.items()
    ]


def deploy(
    target: Target,
    filters: Filters,
    observer: Observer,
    consent: Callable[[Plan], bool],
    may_install: Callable[[tuple[str, ...]], bool] = lambda _: False,
    may_take_over: MayTakeOver = lambda _: False,
) -> Deployed:
    """Brings the site to its profile and verifies it. ``consent`` sees the plan before anything changes.

    ``may_take_over`` is called if another control machine is changing a host of this plan.
    ``may_install`` is called first if hosts are bare: they are installed, and then the plan is made.
    Raises ApplianceError if one could not be installed, KeyboardInterrupt if the user interrupted that.
    """
    with open_session(target, "deploy", observer, changes=True, installs=True) as opened:
        session = _accepting(opened, filters)
        begun = time.monotonic()
        selection = select(session.site, filters)
        _announce(session, target, selection.names, filters.words)
        if not _install(session, selection.hosts, may_install):
            return Deployed(None, 1)
        planned = plan_session(session, selection, ready_to_save)
        plan, stages = planned.plan, planned.selection.stages
        refuse_leaving(session, planned.found, plan)
        refuse_leaving_pods(session, planned.found, plan)
        refuse_lost_exports(session, planned.found, plan)
        refuse_unready(session, planned.found, plan, stages, planned.prepared)
        shown = session.redact.texts(plan)
        session.journal.append(session.run, "plan", cells=[c.model_dump() for c in shown.pending()])
        if not plan.changes:
            for text in blocked_reasons(shown):
                session.tell(Message(text=text, level="warning"))
        if plan.changes and not consent(shown):
            session.journal.append(session.run, "run_finished", verdict="declined")
            return Deployed(None, 1)
        if plan.changes:
            record_declared(session)
        findings = Findings()
        scope = scope_of(session.site, planned.selection)
        hosts = hosts_changed(session, plan, stages)
        with interruptible(session), leased_by_run(session, hosts, may_take_over):
            found = _carry_out(session, planned, findings, scope)
        if interrupted := session.cancelled.is_set():
            text = "Interrupted. Finished stages are kept; the next deploy continues from there."
            session.tell(Message(text=text, level="warning"))
        judged = record_of(session, found, findings)
        record_deployment(session, judged)
        record_accepted(session, found.facts, judged.outcomes)
        record = with_acceptance(session, view_of(session, found), judged)
        save(session, record)
        if target.embedded and not interrupted:
            # Only the rack needs it, and a client of Kubernetes is slow to import.
            from appliance.actions.deployment.rack_members import hand_out

            hand_out(session, record.outcomes)
        code = INTERRUPTED if interrupted else record.verdict.exit_code
        session.journal.append(
            session.run, "run_finished", verdict=record.verdict, exit=code, interrupted=interrupted
        )
        report = str(session.folder_of_run / "report.html")
        session.tell(
            RunFinished(
                verdict=record.verdict,
                exit_code=code,
                seconds=time.monotonic() - begun,
                report=report,
                acceptance=record.acceptance,
            )
        )
        return Deployed(record, code, report, session.site)


def _accepting(session: Session, filters: Filters) -> Session:
    """The session with the hosts whose changed hardware the user accepts. Raises ConfigError for an unknown host."""
    names = [host.name for host in session.site.hosts]
    accepted = named_hosts(filters.accept_facts, names, flag="--accept-facts")
    return replace(session, accepting=frozenset(accepted))


def _install(
    session: Session, limit: frozenset[str], consent: Callable[[tuple[str, ...]], bool]
) -> bool:
    """Installs bare hosts, whatever stages the run is limited to; False if the user declined."""
    if session.site.provision is None:
        return True
    # Slow to import, and only needed by sites with an image.
    from appliance.actions.provisioning.new_hosts import never_installed

    fresh = never_installed(session, limit)
    if not fresh:
        return True
    from appliance.actions.provisioning.provision import install_bare

    done = install_bare(session, fresh, consent)
    if done is None:
        session.journal.append(session.run, "run_finished", verdict="declined")
        return False
    if session.cancelled.is_set():
        # An interrupted installation does not boot, and the next deployment repeats it.
        raise KeyboardInterrupt
    failed = [one for one in done if one.error]
    for one in failed:
        assert one.error is not None
        fix = f"; {one.error.hint}" if one.error.hint else ""
        text = f"{one.host} was not installed: {one.error.message}{fix}"
        session.tell(Message(text=text, level="warning"))
    if failed:
        session.journal.append(session.run, "run_finished", exit=1)
        raise ApplianceError(
            f"{fold([one.host for one in failed])}: not installed, so nothing was deployed",
            "fix the cause and deploy again, which continues from there; or exclude these hosts with --hosts",
        )
    return True


def _announce(session: Session, target: Target, stages: tuple[str, ...], scope: str) -> None:
    session.journal.append(
        session.run,
        "run_started",
        verb="deploy",
        profile=session.profile.name,
        appliance=__version__,
        scope=scope,
    )
    note = ""
    if target.embedded:
        note = (
            "No --site given: using the virtual rack (container hosts on this machine, "
            f"{' and '.join(session.site.simulated)} simulated)."
        )
    elif target.is_here:
        note = f"No --site given: using the site of this folder, {Path.cwd()}."
    session.tell(
        RunStarted(
            run=session.run,
            verb="deploy",
            site=session.site.name,
            profile=session.classes,
            hosts=tuple(h.name for h in session.site.hosts),
            stages=stages,
            simulated=session.site.simulated,
            note=note,
        )
    )


def _carry_out(session: Session, planned: Planned, findings: Findings, scope: Scope) -> Round:
    """Runs the stages in order, then judges the scope of the run on facts taken after the last change."""
    plan, stages = planned.plan, planned.selection.stages
    resume_left_drained(session, plan, stages)
    drain_contradicting(session, planned.found)
    cells = [cell for stage in stages for cell in plan.by_stage(stage.name)]
    if any(c.action.changes or c.action is Action.BLOCKED for c in cells):
        findings.outcomes += apply(session, plan, stages, planned.prepared)
    else:
        findings.outcomes += [
            StageOutcome(stage=c.stage, host=c.host, state=StageState.SKIPPED)
            for c in cells
            if c.action is Action.SKIP
        ]
    if session.cancelled.is_set():
        return planned.found
    look = cache(partial(_look, session, planned, findings, scope))
    for stage in planned.selection.cluster:
        run_cluster_stage(session, stage, plan, findings, look)
    found = look()
    for result in findings.results:
        session.tell(CheckDone(result=result))
    return found


def _look(session: Session, planned: Planned, findings: Findings, scope: Scope) -> Round:
    """Facts taken after the last change, and their results."""
    hosts = {stage.name for stage in planned.selection.stages}
    changed = hosts.intersection(c.stage for c in planned.plan.pending())
    changed |= noticed(findings.outcomes)
    found = planned.found
    if changed:
        found = take_facts(
            session,
            lambda now: is_settled(session, now, findings.outcomes, scope),
            seconds=max(stage.settle_seconds for stage in STAGES if stage.name in changed),
            beside=Beside.QUICK,
        )
    judged = judge_all(view_of(session, found), found, ALL_CHECK_IDS)
    findings.results += filter(scope.judges, judged)
    findings.narrowed, findings.left_out = scope.words, scope.sentences(judged)
    return found


def is_settled(
    session: Session, found: Round, outcomes: Iterable[StageOutcome], scope: Scope
) -> bool:
    """Whether the checks of the stages that ran pass: Prometheus and Slurm notice a repaired host only after their next poll.

    Waiting would not help if a host does not answer, a stage failed, a disk is full, or a command is needed.
    """
    ran = [o for o in outcomes if o.state is not StageState.SKIPPED]
    if scope.hosts & set(found.unanswered) or any(o.state is not StageState.DONE for o in ran):
        return True
    later = noticed(ran)
    stages = later.union(o.stage for o in ran)
    ids = {i for stage in STAGES if stage.name in stages for i in stage.checks}
    view = view_of(session, found)
    results = [r for r in judge_all(view, found, ids) if r.id in ids and scope.judges(r)]
    late = [r for r in lacking(results) if r.kind not in _PATIENT or later]
    return not late or any(map(is_of_room, results))
