"""Self-test of the gates: forged evidence of every known kind must not pass its gate.

Each trial has a journal of its own; no host is contacted, and nothing is stored.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from appliance.benchmarks import BENCHMARKS
from appliance.benchmarks.benchmark import Benchmark, Outcome, Requirement
from appliance.checks.check import View
from appliance.engine.accept.acceptance import gates_of
from appliance.engine.accept.evidence import EVIDENCE, Origin, begin, evidence_of, keep_evidence
from appliance.engine.look.fact_history import store_facts
from appliance.engine.look.gather import Round
from appliance.engine.session import Session
from appliance.journal import Journal
from appliance.models.acceptance import Gate, GateState
from appliance.models.evidence import Evidence, EvidenceFile, Source
from appliance.models.facts import HostFacts
from appliance.models.profile import Limit
from appliance.models.result import CheckResult, Status
from appliance.stages.gpu.facts import Gpu

OTHER_LIMIT = Limit(value=-1, unit="", source="another")
HONEST = "genuine evidence"


@dataclass(frozen=True)
class EvidenceTrial:
    """One piece of evidence for one gate. ``refused``: the gate did not pass; genuine evidence must pass."""

    gate: str
    case: str
    state: GateState
    why: str

    @property
    def as_it_should(self) -> bool:
        """Return whether the gate behaved correctly."""
        return (self.state is GateState.PASSED) is (self.case == HONEST)


@dataclass(frozen=True)
class GateCase:
    """The gate under test, its site, and genuine evidence for it."""

    session: Session
    view: View
    benchmark: Benchmark
    wanted: Requirement
    honest: Evidence

    @property
    def hosts(self) -> tuple[str, ...]:
        """Return the hosts among the gate's targets, each once."""
        return tuple(dict.fromkeys(h for target in self.wanted.targets for h in target.hosts))

    @property
    def gpu_host(self) -> str:
        """Return the last of them that has GPUs."""
        return [host for host in self.hosts if self.view.facts[host].gpus][-1]


Doctor = Callable[[GateCase], View | None]
"""Store forged evidence; return the view to judge by if it differs."""


def self_test(session: Session, facts: dict[str, HostFacts]) -> list[EvidenceTrial]:
    """Test every gate of the site with genuine evidence and with each kind of forged evidence.

    ``session``: the site and its profile; its journal is not written. ``facts``: the facts of its hosts.
    """
    view = View(session.profile, session.site, facts)
    return [
        _tried(session, one, benchmark, wanted, name, doctor)
        for benchmark in BENCHMARKS
        for one in benchmark.views(view)
        for wanted in benchmark.gates(one)
        if not wanted.blocked
        for name, doctor in _cases(wanted)
    ]


def _tried(
    session: Session,
    view: View,
    benchmark: Benchmark,
    wanted: Requirement,
    name: str,
    doctor: Doctor,
) -> EvidenceTrial:
    with _scratch(session) as scratch:
        store_facts(scratch, Round(view.facts, {}))
        honest = honest_evidence(scratch, view, benchmark, wanted)
        begin(scratch, benchmark)
        # The journal keeps milliseconds: later entries must have later dates.
        time.sleep(0.002)
        other = doctor(GateCase(scratch, view, benchmark, wanted, honest))
        gate: Gate = gates_of(scratch, other or view, [wanted])[0]
    return EvidenceTrial(wanted.id, name, gate.state, gate.why)


@contextmanager
def _scratch(session: Session) -> Iterator[Session]:
    with Journal(session.runs, of_trials=True) as journal:
        yield replace(session, run="self-test", journal=journal)


def honest_evidence(
    session: Session, view: View, benchmark: Benchmark, wanted: Requirement
) -> Evidence:
    """Return evidence that closes a gate: each of its targets passes, measured now, on this site."""
    now = datetime.now(UTC)
    file = EvidenceFile(
        path="/x", sha256="0" * 64, size=1, part=wanted.part, began=now, dated_by="self-test"
    )
    source = Source.NOW if wanted.by_run else Source.LOGS
    origin = Origin(source, "self-test", now, "self-test", (file,))
    results = tuple(
        CheckResult(
            id=wanted.check,
            target=target.name,
            status=Status.PASS,
            value=1.0,
            unit=wanted.expected_unit,
            limit=1.0,
        )
        for target in wanted.targets
    )
    gpu = next(iter(sorted(wanted.gpus)), "")
    return evidence_of(session, view, benchmark, Outcome(results), origin, gpu)


def _cases(wanted: Requirement) -> Iterator[tuple[str, Doctor]]:
    yield HONEST, _as(lambda e: {})
    yield "none at all", lambda case: None
    yield "of another site", _as(lambda e: {"site": "elsewhere"})
    yield "of another profile", _as(lambda e: {"profile": "another"})
    yield "on simulated hardware", _as(lambda e: {"simulated": ("gpu",)})
    yield "with simulated results", _results(simulated=True)
    yield "of another program", _as(lambda e: {"source": Source.TOOL})
    yield "of another benchmark", _as(lambda e: {"benchmark": "another"})
    yield "of another check", _results(id="another.check")
    yield "of an unknown form", _unreadable
    yield "in another unit", _results(unit="furlongs")
    for status in (Status.FAIL, Status.ERROR, Status.SKIP, Status.NOT_ASSESSED):
        yield f"with a result that is {status.value}", _last(status)
    yield "without one target", _as(lambda e: {"results": e.results[:-1]})
    if wanted.limit:
        yield "without a value", _results(value=None)
        yield "with a value below nought", _results(value=-1.0)
        yield "with a word for a value", _results(value="fast")
        yield "judged by another limit", _limits({wanted.id: OTHER_LIMIT})
        yield "judged by no limit", _limits({})
    if any(target.of_cluster for target in wanted.targets):
        yield "of fewer hosts", _as(lambda e: {"hosts": e.hosts[:-1], "size": e.size - 1})
        yield "of other hosts", _as(lambda e: {"hosts": ("other", *e.hosts[1:])})
    if not wanted.by_run:
        yield "of the future", _ahead
        if wanted.part:
            yield "of which no file could be read", _as(lambda e: {"files": ()})
    for stage in wanted.stages:
        yield f"older than a change of stage {stage}", _changed(stage)
        yield f"measured while stage {stage} was running", _begun(stage)
    if wanted.of_gpus:
        yield "of another GPU", _as(lambda e: {"gpu": "another"})
        yield "of another number of GPUs a host", _as(lambda e: {"gpus_per_host": 1})
        yield "older than an exchanged GPU", _exchanged
        yield "of a host with unknown GPUs", _unknown


def _as(change: Callable[[Evidence], dict[str, object]]) -> Doctor:
    def doctor(case: GateCase) -> None:
        keep_evidence(case.session, case.honest.model_copy(update=change(case.honest)))

    return doctor


def _limits(limits: dict[str, Limit]) -> Doctor:
    return _as(lambda e: {"limits": limits})


def _results(**change: object) -> Doctor:
    return _as(lambda e: {"results": tuple(r.model_copy(update=change) for r in e.results)})


def _last(status: Status) -> Doctor:
    def change(evidence: Evidence) -> dict[str, object]:
        *rest, last = evidence.results
        bad = last.model_copy(update={"status": status, "cause": "doctored"})
        return {"results": (*rest, bad)}

    return _as(change)


def _unreadable(case: GateCase) -> None:
    document = case.honest.model_dump(mode="json") | {"version": 99}
    case.session.journal.append(case.session.run, EVIDENCE, evidence=document)


def _ahead(case: GateCase) -> None:
    later = case.honest.began + timedelta(hours=3)
    files = tuple(file.model_copy(update={"began": later}) for file in case.honest.files)
    changed = case.honest.model_copy(update={"began": later, "files": files})
    keep_evidence(case.session, changed)


def _changed(stage: str) -> Doctor:
    def doctor(case: GateCase) -> None:
        keep_evidence(case.session, case.honest)
        host = case.hosts[-1]
        case.session.journal.append("later", "host_done", stage=stage, host=host, changes=1)

    return doctor


def _begun(stage: str) -> Doctor:
    def doctor(case: GateCase) -> None:
        case.session.journal.append("beside", "host_started", stage=stage, host=case.hosts[0])
        keep_evidence(case.session, case.honest)

    return doctor


def _exchanged(case: GateCase) -> View:
    keep_evidence(case.session, case.honest)
    host = case.gpu_host
    facts = case.view.facts[host]
    assert facts.gpus is not None
    first, *rest = facts.gpus.devices
    new: Gpu = first.model_copy(update={"uuid": "GPU-of-another-day"})
    gpus = facts.gpus.model_copy(update={"devices": (new, *rest)})
    told = facts.model_copy(update={"gpus": gpus})
    store_facts(case.session, Round({host: told}, {}))
    return replace(case.view, facts={**case.view.facts, host: told})


def _unknown(case: GateCase) -> View:
    keep_evidence(case.session, case.honest)
    host = case.gpu_host
    silent = case.view.facts[host].model_copy(update={"gpus": None})
    return replace(case.view, facts={**case.view.facts, host: silent})
