"""Evidence in the site's journal: how it is stored, and which of it counts for a gate."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from pydantic import ValidationError

from appliance.benchmarks.benchmark import Benchmark, Outcome, Raw, Requirement
from appliance.checks.check import View
from appliance.engine.look.run_record import simulated_areas
from appliance.engine.session import Session
from appliance.journal import Entry
from appliance.models.evidence import Evidence, EvidenceFile, Source
from appliance.models.gpu_counts import gpu_least
from appliance.models.result import CheckResult, Status
from appliance.models.run import Table
from appliance.models.site import Role

EVIDENCE = "evidence"
OF_LOGS = "log_evidence"
"""The kind of entries up to 0.1.0, which held version 1."""
BEGUN = "benchmark_started"
BY_PROGRAM = "this program"
UNMEASURED = frozenset({Status.NOT_ASSESSED, Status.SKIP})


@dataclass(frozen=True)
class Recorded:
    """Evidence as the journal holds it, with the run that recorded it.

    ``seq``: its number in the journal. ``since``: the number of the entry after which it was measured; None if
    the journal does not show that, so its clock must. ``time``: when it was stored.
    """

    run: str
    seq: int
    time: datetime
    since: int | None
    evidence: Evidence


@dataclass(frozen=True)
class Origin:
    """The source of evidence, its location for people (``where``), and when its measurement began."""

    source: Source
    where: str
    began: datetime
    dated_by: str
    files: tuple[EvidenceFile, ...] = ()


def keep_evidence(session: Session, evidence: Evidence) -> None:
    """Store evidence in the site's journal, without the site's secrets."""
    safe = session.redact.texts(evidence)
    session.journal.append(session.run, EVIDENCE, evidence=safe.model_dump(mode="json"))


def begin(session: Session, benchmark: Benchmark, profile: str = "") -> None:
    """Record in the journal that a measurement begins now: a host that changes after this entry makes the evidence
    stale.
    ``profile``: its class, if the site has several.
    """
    session.journal.append(session.run, BEGUN, benchmark=named(benchmark.name, profile))


def named(benchmark: str, profile: str) -> str:
    """Return the journal's name of a benchmark, or of its part for one class if the site has several."""
    return f"{benchmark}/{profile}" if profile else benchmark


def keep_run(
    session: Session, view: View, benchmark: Benchmark, outcome: Outcome, began: datetime
) -> None:
    """Store what a benchmark has just measured, with its raw output next to the report; nothing if nothing was measured."""
    if all(result.status in UNMEASURED for result in outcome.results):
        return
    origin = Origin(
        Source.NOW,
        f"run {session.run}",
        began,
        BY_PROGRAM,
        tuple(kept_file(session, benchmark, raw, began) for raw in outcome.raw),
    )
    keep_evidence(session, evidence_of(session, view, benchmark, outcome, origin))


def evidence_of(
    session: Session,
    view: View,
    benchmark: Benchmark,
    outcome: Outcome,
    origin: Origin,
    gpu: str = "",
) -> Evidence:
    """Judge what a benchmark showed of this site against today's limits.

    ``gpu``: the model that the evidence names; without it the hosts' model, if they agree.
    """
    gates = benchmark.gates(view)
    gpus = {gpu} if gpu else {name for wanted in gates for name in wanted.gpus}
    hosts = tuple(host.name for host in view.site.with_role(Role.GPU))
    return Evidence(
        benchmark=benchmark.name,
        source=origin.source,
        origin=origin.where,
        files=origin.files,
        began=origin.began,
        dated_by=origin.dated_by,
        site=session.site.name,
        profile=view.profile.name,
        gpu=next(iter(gpus)) if len(gpus) == 1 else "",
        gpus_per_host=gpu_least(view.profile, view.site),
        hosts=hosts,
        size=len(hosts),
        limits={wanted.id: wanted.limit for wanted in gates if wanted.limit},
        simulated=simulated_areas(session, view.facts),
        results=outcome.results,
        measurements=outcome.measurements,
        tables=outcome.tables,
    )


def kept_file(
    session: Session, benchmark: Benchmark, raw: Raw, began: datetime, dated_by: str = BY_PROGRAM
) -> EvidenceFile:
    """Write a tool's output next to the report of this run."""
    file = session.folder_of_run / "evidence" / benchmark.name / raw.name
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    content = session.redact(raw.text).encode()
    file.write_bytes(content)
    return EvidenceFile(
        path=str(file),
        sha256=hashlib.sha256(content).hexdigest(),
        size=len(content),
        part=raw.part,
        began=began,
        dated_by=dated_by,
    )


def foreign_tables(session: Session) -> tuple[Table, ...]:
    """Return the newest result of each external audit; it is shown with ours and closes no gate."""
    found = {
        one.evidence.benchmark: one.evidence.tables
        for one in recorded(session)
        if one.evidence.source is Source.TOOL
    }
    return tuple(table for tables in found.values() for table in tables)


def recorded(session: Session) -> Iterator[Recorded]:
    """Return all evidence in the site's journal, oldest first, except what this release cannot read."""
    started: dict[tuple[str, str], int] = {}
    for entry in session.journal.entries(EVIDENCE, OF_LOGS, BEGUN):
        if entry.kind == BEGUN:
            started[entry.run, str(entry.data.get("benchmark"))] = entry.seq
            continue
        evidence = _read(entry)
        if evidence is None:
            continue
        by_journal = evidence.source is Source.NOW
        of_class = entry.run, named(evidence.benchmark, evidence.profile)
        since = started.get(of_class, started.get((entry.run, evidence.benchmark)))
        since = since if by_journal else None
        yield Recorded(entry.run, entry.seq, entry.time, since, evidence)


def minutes_taken(session: Session) -> dict[str, float]:
    """Return by benchmark how long its last run on the site took."""
    return {
        one.evidence.benchmark: max(0.0, (one.time - one.evidence.began).total_seconds() / 60)
        for one in recorded(session)
        if one.evidence.source is Source.NOW
    }


def _read(entry: Entry) -> Evidence | None:
    try:
        return Evidence.model_validate(entry.data["evidence"])
    except (KeyError, TypeError, ValidationError):
        return None


def speaking_of(wanted: Requirement, known: Sequence[Recorded]) -> dict[str | None, Recorded]:
    """Return by host (None: the cluster) the evidence that counts: the last with a result of this gate."""
    found: dict[str | None, Recorded] = {}
    for one in known:
        is_ours = one.evidence.source is not Source.TOOL
        is_ours = is_ours and wanted.profile in {"", one.evidence.profile}
        if is_ours and one.evidence.benchmark == wanted.benchmark:
            found |= {
                result.host: one for result in one.evidence.results if wanted.concerns(result)
            }
    return found


def results_of(
    wanted: Requirement, speaking: dict[str | None, Recorded]
) -> list[tuple[CheckResult, Recorded]]:
    """Return what that evidence reports about the gate, each result with its source."""
    return [
        (result, one)
        for host, one in speaking.items()
        for result in one.evidence.results
        if result.host == host and wanted.concerns(result)
    ]
