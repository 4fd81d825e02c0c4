"""An audit of the site by another program, entered into the site's record: shown beside ours, counting for no gate. No host is contacted."""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from appliance.actions.opening import Target, open_session
from appliance.benchmarks.benchmark import Benchmark, Outcome, Raw
from appliance.benchmarks.foreign import clustermax
from appliance.engine.earlier import last_facts
from appliance.engine.evidence import Origin, evidence_of, keep_evidence, kept_file
from appliance.engine.gather import Round
from appliance.engine.survey import view_of
from appliance.models.events import Observer
from appliance.models.evidence import Source
from appliance.models.run import Table

DATED = "the audit's own clock"
BENCHMARK = Benchmark(
    name=clustermax.NAME,
    title="ClusterMAX's audit",
    checks=(),
    run=lambda view, remote: Outcome(),
    minutes=0,
    explain="",
    deploys=False,
)
"""What the evidence is filed under. It is none of ours: nothing runs it, and no gate asks for it."""


@dataclass(frozen=True)
class Entered:
    """An audit that was entered: of what, in which run, and what it finds wrong or doubtful."""

    site: str
    run: str
    counts: str
    table: Table


def enter(target: Target, file: Path, observer: Observer) -> Entered:
    """Reads an audit of ClusterMAX and keeps it with its digest. Raises ConfigError; nothing is recorded then."""
    audit = clustermax.read(file, datetime.now(UTC))
    with open_session(target, "validate", observer, only_looks=True, keeps=True) as session:
        facts = {h.name: f for h in session.site.hosts if (f := last_facts(session, h.name))}
        view = view_of(session, Round(facts, {}))
        began = audit.values.cluster.audited_at
        raw = (Raw("audit.values.json", audit.text), Raw("review.txt", audit.review))
        files = tuple(kept_file(session, BENCHMARK, one, began, DATED) for one in raw)
        where = f"audit by ClusterMAX {audit.release} in {file.absolute()}"
        origin = Origin(Source.TOOL, where, began, DATED, files)
        shown = clustermax.table(audit)
        outcome = Outcome(tables=(shown,))
        keep_evidence(session, evidence_of(session, view, BENCHMARK, outcome, origin))
        return Entered(session.site.name, session.run, audit.counts, shown)
