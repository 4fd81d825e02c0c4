"""Accept: judges every level in order, from the record and from new measurements; an accepted site is handed over."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from appliance.actions.acceptance.handover import Written, hand_over, require_place
from appliance.actions.deployment.facts_and_plan import take_facts
from appliance.actions.sites.interrupts import interruptible
from appliance.actions.sites.opening import Target, open_session
from appliance.adapters.signing import key_of
from appliance.benchmarks import BENCHMARKS
from appliance.benchmarks.benchmark import Benchmark, Requirement
from appliance.checks.check import View
from appliance.engine.accept.acceptance import acceptance_of, requirements
from appliance.engine.accept.deployment_state import deployment_state
from appliance.engine.accept.evidence import foreign_tables, recorded, results_of, speaking_of
from appliance.engine.accept.levels import ORDER, check_gates, in_order
from appliance.engine.accept.waivers import active
from appliance.engine.look.gather import Round
from appliance.engine.look.judge import judge_all
from appliance.engine.look.probe_requests import ALL_CHECK_IDS, Beside
from appliance.engine.look.run_record import Findings, record_of, save
from appliance.engine.look.survey import view_of
from appliance.engine.run.benchmark_runs import run_benchmarks
from appliance.engine.run.lease import all_hosts, leased_by_run
from appliance.engine.session import Session
from appliance.models.acceptance import Acceptance, Accepted, Gate, GateState, Level, gates_verdict
from appliance.models.events import Observer
from appliance.models.result import Verdict, worse
from appliance.models.run import RunRecord

OWN = ORDER[: ORDER.index(Level.HOST) + 1]
"""Levels that each host passes by itself before the cluster is measured."""


@dataclass(frozen=True)
class AcceptResult:
    """The state of an acceptance; ``written``: its hand-over, if the site is accepted."""

    record: RunRecord
    report: str
    written: Written | None

    @property
    def exit_code(self) -> int:
        """0 accepted and handed over, 1 failed or simulated, 3 something is open."""
        found = self.record.acceptance
        if found and found.verdict is Accepted.YES:
            return 0
        failed = found and found.verdict in {Accepted.NO, Accepted.SIMULATED}
        return 1 if failed else 3


def accept(
    target: Target,
    observer: Observer,
    *,
    runs: bool = True,
    output: Path | None = None,
    sign: Path | None = None,
) -> AcceptResult:
    """Judges the site level by level, measures what is open and can be measured, and hands over an accepted site.

    ``runs`` False measures nothing. ``sign``: the key the hand-over is signed with. Raises ConfigError for a key that cannot
    sign, and for an output that cannot be written, before any host is contacted; KeyboardInterrupt after the measurements are saved.
    """
    key = key_of(sign) if sign else None
    if output:
        require_place(output)
    with open_session(target, "accept", observer, keeps=True, alone=runs) as session:
        session.journal.append(session.run, "run_started", verb="accept")
        found = take_facts(session, beside=Beside.DEEP)
        view = view_of(session, found)
        findings = Findings()
        findings.results += judge_all(view, found, ALL_CHECK_IDS)
        checks = check_gates(findings.results, active(session))
        measures = runs and not found.unanswered
        hosts = all_hosts(session) if measures else ()
        with interruptible(session), leased_by_run(session, hosts):
            if measures:
                _measure(session, view, found, checks)
        record = _record(session, view, found, findings, checks)
        interrupted = session.cancelled.is_set()
        accepted = record.acceptance and record.acceptance.verdict is Accepted.YES
        written = None
        if accepted and not interrupted:
            written = hand_over(session, record, output, key)
            record = record.model_copy(update={"handover": written.handover})
        save(session, record)
        session.journal.append(
            session.run, "run_finished", verdict=record.verdict, interrupted=interrupted
        )
        if interrupted:
            raise KeyboardInterrupt
        return AcceptResult(record, str(session.folder_of_run / "report.html"), written)


def _measure(session: Session, view: View, found: Round, checks: Sequence[Gate]) -> None:
    """Runs the benchmarks of open gates, level by level; none if the site is simulated or not deployed.

    The cluster is not measured before every host has passed its own levels.
    """
    now = acceptance_of(session, view, ())
    if now.verdict is Accepted.SIMULATED or deployment_state(session, active(session)).why:
        return
    for level in ORDER:
        if session.cancelled.is_set():
            return
        gates = (*checks, *acceptance_of(session, view, ()).gates)
        before = [gate for gate in gates if gate.level in ORDER[: ORDER.index(level)]]
        own = [gate for gate in before if gate.level in OWN]
        if any(g.state is GateState.FAILED and g.holds_back for g in before):
            return
        if level not in OWN and any(gate.holds_back for gate in own):
            return
        if chosen := _to_run(view, level, gates):
            run_benchmarks(session, view, list(found.facts), chosen)


def _to_run(view: View, level: Level, gates: Sequence[Gate]) -> tuple[Benchmark, ...]:
    """The benchmarks whose run can close an open gate of this level."""
    holding = {gate.id: gate.close for gate in gates if gate.holds_back}
    return tuple(
        benchmark
        for benchmark in BENCHMARKS
        if any(_is_open(wanted, level, holding) for wanted in benchmark.requirements(view))
    )


def _is_open(wanted: Requirement, level: Level, holding: Mapping[str, str]) -> bool:
    """Whether a run closes the gate now; ``holding``: what closes each gate that blocks the site."""
    of_run = wanted.by_run and not wanted.blocked and holding.get(wanted.id) == wanted.close
    return of_run and wanted.level is level


def _record(
    session: Session, view: View, found: Round, findings: Findings, checks: Sequence[Gate]
) -> RunRecord:
    """The run with the measurements of each gate, next to the current checks."""
    _add_evidence(session, view, findings)
    record = record_of(session, found, findings)
    waivers = active(session)
    measured = acceptance_of(session, view, record.simulated)
    acceptance = with_checks(measured, checks)
    gates = gates_verdict(gate for gate in acceptance.gates if gate.holds_back)
    return record.model_copy(
        update={
            "acceptance": acceptance,
            "waivers": waivers,
            "verdict": record.verdict if record.simulated else worse(record.verdict, gates),
        }
    )


def _add_evidence(session: Session, view: View, findings: Findings) -> None:
    known = list(recorded(session))
    used: dict[int, None] = {}
    said_of = {result.name for result in findings.results}
    for wanted in requirements(view):
        for result, one in results_of(wanted, speaking_of(wanted, known)):
            if result.name in said_of:
                continue
            said_of.add(result.name)
            mark = f"{one.evidence.origin}, {one.evidence.began:%Y-%m-%d}"
            said = f"{result.evidence}; {mark}" if result.evidence else mark
            findings.results.append(result.model_copy(update={"evidence": said}))
            used[one.seq] = None
    for one in known:
        if one.seq in used:
            findings.measurements += one.evidence.measurements
            findings.tables += one.evidence.tables
    findings.tables += foreign_tables(session)


def with_checks(found: Acceptance, checks: Sequence[Gate]) -> Acceptance:
    """The verdict with the gates of the checks, in the order of acceptance. A gate that blocks a check blocks the site."""
    gates = in_order((*checks, *found.gates))
    holding = gates_verdict(gate for gate in checks if gate.holds_back)
    used = tuple(waiver for gate in checks for waiver in gate.waivers)
    update: dict[str, object] = {"gates": gates}
    if found.verdict in {Accepted.YES, Accepted.NOT_YET} and holding is Verdict.FAILED:
        update |= {"verdict": Accepted.NO, "waivers": ()}
    elif found.verdict is Accepted.YES and holding is not Verdict.PASSED:
        update |= {"verdict": Accepted.NOT_YET, "waivers": ()}
    elif found.verdict is Accepted.YES:
        update["waivers"] = tuple(dict.fromkeys((*found.waivers, *used)))
    return found.model_copy(update=update)
