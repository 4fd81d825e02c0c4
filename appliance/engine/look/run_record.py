"""Assembles the record of a run: events, results, measurements, and what is unknown."""

import hashlib
import json
import os
import socket
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from appliance import __version__
from appliance.benchmarks.benchmark import Outcome
from appliance.checks.check import judged, not_assessed
from appliance.engine.look.gather import Round
from appliance.engine.look.survey import view_of
from appliance.engine.session import Session
from appliance.engine.stopwatch import Stopwatch
from appliance.engine.user import user_name
from appliance.journal import New
from appliance.models.bmc import BmcFacts
from appliance.models.facts import HostFacts
from appliance.models.images import RunningImage
from appliance.models.result import CheckResult, Measurement, Status, overall
from appliance.models.run import (
    HostRecord,
    KeptFile,
    RunRecord,
    StageOutcome,
    StageState,
    Table,
    expected_of,
    host_record,
    host_versions,
    of_its_class,
)
from appliance.ownership import strangers_of, trusted
from appliance.report.advice import told
from appliance.report.findings import findings as findings_of
from appliance.stages.kubernetes.checks.images import running

AGAIN = "deploy again: finished stages are not repeated"


@dataclass
class Findings:
    """What a verb has found so far. ``narrowed``: the flags that restricted it; ``left_out``: what they excluded."""

    stopwatch: Stopwatch = field(default_factory=Stopwatch)
    outcomes: list[StageOutcome] = field(default_factory=list)
    results: list[CheckResult] = field(default_factory=list)
    measurements: list[Measurement] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    narrowed: str = ""
    left_out: tuple[str, ...] = ()

    def add(self, measured: Outcome) -> None:
        """Add the results of benchmarks."""
        self.results += measured.results
        self.measurements += measured.measurements
        self.tables += measured.tables


def record_of(session: Session, found: Round, findings: Findings) -> RunRecord:
    """Return the run as it will be reported, with its evidence next to it.

    A stage that failed on a host fails the run, whatever checks report.
    """
    stages = _stage_results(findings.outcomes)
    said = {(r.id, r.target) for r in stages}
    judged = (*stages, *(r for r in findings.results if (r.id, r.target) not in said))
    results = session.redact.texts((*judged, *_omitted(findings.outcomes, judged)))
    return RunRecord(
        run=session.run,
        verb=session.verb,
        site=session.site.name,
        profile=session.profile.name,
        profile_title=session.profile.title,
        started=findings.stopwatch.started,
        finished=findings.stopwatch.now,
        user=user_name(),
        appliance=__version__,
        control_host=socket.gethostname(),
        simulated=simulated_areas(session, found.facts),
        verdict=overall(results),
        expected=expected_of(session.profile, session.site),
        hosts=host_records(session, found),
        outcomes=tuple(findings.outcomes),
        results=results,
        measurements=tuple(findings.measurements),
        versions={name: host_versions(facts) for name, facts in found.facts.items()},
        images=_images(session, found),
        tables=tuple(findings.tables),
        narrowed=findings.narrowed,
        left_out=findings.left_out,
        not_assessed=_not_assessed(results),
        evidence=tuple(keep(session, "facts", facts) for facts in found.facts.values()),
    )


def host_records(session: Session, found: Round) -> tuple[HostRecord, ...]:
    """Return the hosts as inventory, in the order of the site; those without facts with the reason."""
    return tuple(
        of_its_class(
            host_record(
                h,
                found.facts.get(h.name),
                found.unanswered[h.name].cause if h.name in found.unanswered else "",
            ),
            session.profile,
            session.site,
        )
        for h in session.site.hosts
    )


def _images(session: Session, found: Round) -> tuple[RunningImage, ...]:
    """Return the facts of the cluster that the site deploys; None if unknown, which its check reports."""
    if session.site.kubernetes is None or session.site.external_cluster:
        return ()
    _, images, _ = running(view_of(session, found))
    return images or ()


def simulated_areas(session: Session, facts: Mapping[str, HostFacts]) -> tuple[str, ...]:
    """Return areas of hardware that are simulated, as the site and the hosts declare."""
    found = set(session.site.simulated).union(*(f.simulated for f in facts.values()))
    return tuple(sorted(found))


def ready_to_save() -> None:
    """Load the report's templates, which takes longer than rendering a report."""
    from appliance.report.html import read_templates

    read_templates()


def save(session: Session, record: RunRecord) -> None:
    """Store the run: results in the journal, the report as JSON and HTML in the run's folder."""
    # A run that is not kept needs no templates.
    from appliance.report.html import render as render_html

    folder = session.folder_of_run
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Redact texts before they are encoded: a secret may equal a word of the JSON syntax.
    safe = session.redact.texts(told(record, session.address))
    (folder / "report.json").write_text(safe.model_dump_json(indent=1), encoding="utf-8")
    (folder / "report.html").write_text(render_html(safe), encoding="utf-8")
    _hand_over(session.runs)
    session.journal.append_all(
        session.run,
        (
            *(New("result", _data(r), host=r.host or "") for r in safe.results),
            *(New("measured", _data(m)) for m in safe.measurements),
        ),
    )


def _data(model: CheckResult | Measurement) -> dict[str, object]:
    found: dict[str, object] = json.loads(model.model_dump_json())
    return found


def _hand_over(folder: Path) -> None:
    """Give the runs to the user who called sudo, so that people can open the reports."""
    named = [os.environ.get(name, "") for name in ("SUDO_UID", "SUDO_GID")]
    if os.geteuid() or not all(number.isdecimal() for number in named):
        return
    user, group = int(named[0]), int(named[1])
    if folder.parent.stat().st_uid == user:
        for path in (folder, *folder.rglob("*")):
            os.chown(path, user, group, follow_symlinks=False)
    elif not strangers_of(group, trusted()):
        _show(folder, group)


def _show(folder: Path, group: int) -> None:
    """If root owns the site, the runs stay root's, because root without sudo would refuse others. The caller reads them as the group."""
    for path in (folder, *folder.rglob("*")):
        os.chown(path, 0, group, follow_symlinks=False)
        if not path.is_symlink():
            path.chmod(path.stat().st_mode | (0o050 if path.is_dir() else 0o040))


def keep(session: Session, folder: str, facts: HostFacts | BmcFacts) -> KeptFile:
    """Return the facts that the checks judged, as the host or its BMC reported them."""
    file = session.folder_of_run / folder / f"{facts.host}.json"
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    content = session.redact(facts.model_dump_json(indent=1)).encode()
    file.write_bytes(content)
    return KeptFile(
        path=str(file.relative_to(session.folder_of_run)),
        sha256=hashlib.sha256(content).hexdigest(),
        size=len(content),
    )


def _stage_results(outcomes: Iterable[StageOutcome]) -> tuple[CheckResult, ...]:
    bad = {StageState.FAILED: Status.FAIL, StageState.BLOCKED: Status.ERROR}
    return tuple(
        judged(
            o.host,
            bad[o.state],
            cause=o.cause or o.why,
            fix=o.fix or "fix the stage that failed, then deploy again",
        ).of(f"stage.{o.stage}")
        for o in outcomes
        if o.state in bad
    )


def _omitted(
    outcomes: Iterable[StageOutcome], results: Iterable[CheckResult]
) -> Iterator[CheckResult]:
    """Return stages that did not run on hosts without any other mention; results there are of an earlier run."""
    seen = list(results)
    broken = {r.host for r in seen if r.status in {Status.FAIL, Status.ERROR}}
    said = {r.name for r in seen}
    for o in outcomes:
        left = not_assessed(o.host, f"not run here: {o.why}", fix=AGAIN).of(f"stage.{o.stage}")
        if o.state is StageState.NOT_RUN and o.host not in broken and left.name not in said:
            yield left


def _not_assessed(results: Iterable[CheckResult]) -> tuple[str, ...]:
    """Return one sentence per check and reason with its hosts, required checks first."""
    unknown = {Status.NOT_ASSESSED, Status.SKIP, Status.ERROR}
    grouped: dict[tuple[str, str], list[str]] = {}
    found = [f.result for f in findings_of(results) if f.result.status in unknown]
    for result in sorted(found, key=lambda r: not r.required):
        grouped.setdefault((result.id, result.cause), []).append(result.target)
    return tuple(
        f"{check}: {cause} ({', '.join(targets[:4])}{' …' if len(targets) > 4 else ''})"
        for (check, cause), targets in grouped.items()
    )
