"""Adds the result of another program to the site's record: shown next to ours, closing no gate. Contacts no host."""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from appliance.actions.sites.opening import Target, open_session
from appliance.benchmarks.benchmark import Benchmark, Outcome
from appliance.benchmarks.foreign import clustermax, isvctl, nvcre
from appliance.benchmarks.foreign.shown import ForeignReport
from appliance.engine.accept.evidence import Origin, evidence_of, keep_evidence, kept_file
from appliance.engine.look.fact_history import last_facts
from appliance.engine.look.gather import Round
from appliance.engine.look.survey import view_of
from appliance.models.events import Observer
from appliance.models.evidence import Source
from appliance.models.run import Table


@dataclass(frozen=True)
class Entered:
    """What was added: the site, the run, and the number of failures and doubts."""

    site: str
    run: str
    counts: str
    table: Table


def enter(target: Target, file: Path, observer: Observer) -> Entered:
    """Reads an audit of ClusterMAX or a report of NVCRE or isvctl, and records it with its digest. Raises ConfigError; then nothing is recorded."""
    found = _read(file, datetime.now(UTC))
    benchmark = _filed_under(found)
    with open_session(
        target, "validate", observer, only_looks=True, keeps=True, by_ssh=False
    ) as session:
        facts = {h.name: f for h in session.site.hosts if (f := last_facts(session, h.name))}
        view = view_of(session, Round(facts, {}))
        files = tuple(
            kept_file(session, benchmark, one, found.began, found.dated_by) for one in found.raw
        )
        origin = Origin(Source.TOOL, found.of, found.began, found.dated_by, files)
        outcome = Outcome(tables=(found.table,))
        keep_evidence(session, evidence_of(session, view, benchmark, outcome, origin))
        return Entered(session.site.name, session.run, found.counts, found.table)


def _read(file: Path, now: datetime) -> ForeignReport:
    text = clustermax.text_of(file)
    if isvctl.is_one(text):
        return isvctl.read(file, text, now)
    if nvcre.is_one(text):
        return nvcre.read(file, text, now)
    return clustermax.shown(clustermax.read(file, now), file)


def _filed_under(found: ForeignReport) -> Benchmark:
    """It is not a benchmark of ours: nothing runs it, and no gate needs it."""
    return Benchmark(
        name=found.name,
        title=found.of,
        checks=(),
        run=lambda view, remote: Outcome(),
        minutes=0,
        explain="",
    )
