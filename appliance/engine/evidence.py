"""Evidence in the site's record: how it is kept, and which of it speaks of a gate."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from pydantic import ValidationError

from appliance.benchmarks.benchmark import Benchmark, Outcome, Raw, Requirement
from appliance.checks.check import View
from appliance.engine.record import simulated_areas
from appliance.engine.session import Session
from appliance.journal import Entry
from appliance.models.evidence import Evidence, EvidenceFile, Source
from appliance.models.gpus import gpu_least
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
    """Evidence as the journal keeps it, with the run that recorded it.

    ``seq``: its number in the journal; ``since``: the number of the entry after which it was measured, None where the
    journal does not order that: then its clock must. ``time``: when it was entered.
    """

    run: str
    seq: int
    time: datetime
    since: int | None
    evidence: Evidence


@dataclass(frozen=True)
class Origin:
    """Where evidence comes from, for people ``where`` it lies, and when its measuring began."""

    source: Source
    where: str
    began: datetime
    dated_by: str
    files: tuple[EvidenceFile, ...] = ()


def keep_evidence(session: Session, evidence: Evidence) -> None:
    """Enters evidence into the site's record, without the site's secrets."""
    safe = session.redact.texts(evidence)
    session.journal.append(session.run, EVIDENCE, evidence=safe.model_dump(mode="json"))


def begin(session: Session, benchmark: Benchmark) -> None:
    """Notes in the journal that measuring begins now: what changes a host after this entry makes the evidence stale."""
    session.journal.append(session.run, BEGUN, benchmark=benchmark.name)


def keep_run(
    session: Session, view: View, benchmark: Benchmark, outcome: Outcome, began: datetime
) -> None:
    """Enters what a benchmark has just measured, its raw output beside the report; nothing where nothing was measured."""
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
    """What a benchmark has shown of this site, judged against the limits of now.

    ``gpu``: the model that the evidence itself names; without it that of the hosts, where they agree.
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
        profile=session.profile.name,
        gpu=next(iter(gpus)) if len(gpus) == 1 else "",
        gpus_per_host=gpu_least(session.profile, session.site),
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
    """Writes what a tool said beside the report of this run."""
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
    """Of each program of others what its newest audit said; it stands beside ours and counts for nothing."""
    found = {
        one.evidence.benchmark: one.evidence.tables
        for one in recorded(session)
        if one.evidence.source is Source.TOOL
    }
    return tuple(table for tables in found.values() for table in tables)


def recorded(session: Session) -> Iterator[Recorded]:
    """All evidence of the site's record, oldest first; what this program cannot read is none."""
    started: dict[tuple[str, str], int] = {}
    for entry in session.journal.entries(EVIDENCE, OF_LOGS, BEGUN):
        if entry.kind == BEGUN:
            started[entry.run, str(entry.data.get("benchmark"))] = entry.seq
            continue
        evidence = _read(entry)
        if evidence is None:
            continue
        by_journal = evidence.source is Source.NOW
        since = started.get((entry.run, evidence.benchmark)) if by_journal else None
        yield Recorded(entry.run, entry.seq, entry.time, since, evidence)


def minutes_taken(session: Session) -> dict[str, float]:
    """By benchmark how long it took when this program last ran it on the site."""
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
    """By host, None for the cluster, the evidence that counts: that recorded last with a result of this gate there."""
    found: dict[str | None, Recorded] = {}
    for one in known:
        is_ours = one.evidence.source is not Source.TOOL
        if is_ours and one.evidence.benchmark == wanted.benchmark:
            found |= {
                result.host: one for result in one.evidence.results if wanted.concerns(result)
            }
    return found


def results_of(
    wanted: Requirement, speaking: dict[str | None, Recorded]
) -> list[tuple[CheckResult, Recorded]]:
    """What that evidence says of the gate, each result with where it is from."""
    return [
        (result, one)
        for host, one in speaking.items()
        for result in one.evidence.results
        if result.host == host and wanted.concerns(result)
    ]
