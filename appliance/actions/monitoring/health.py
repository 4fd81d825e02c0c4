"""Health: the checks of every stage on fresh facts; reads hosts only."""

import re
import socket
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import product
from pathlib import Path

from appliance.actions.monitoring.reference_day import ReferenceDay, reference_day
from appliance.actions.profiles.limit_bounds import check_ids
from appliance.actions.sites.opening import Target, open_session
from appliance.adapters.support_archive import first_files
from appliance.checks.check import not_assessed
from appliance.config.load import load_profile
from appliance.config.rules.base import near
from appliance.engine.accept.acceptance import acceptance_of
from appliance.engine.accept.baseline import differences
from appliance.engine.accept.waivers import active
from appliance.engine.host_names import named_hosts
from appliance.engine.look import alone, bundled
from appliance.engine.look.gather import Round
from appliance.engine.look.judge import REACHABLE, RECEIPTS, judge_all
from appliance.engine.look.kept_results import KIND, KeptResults
from appliance.engine.look.posture import keep_postures, posture_differences
from appliance.engine.look.probe_requests import ALL_CHECK_IDS, Beside
from appliance.engine.look.run_record import (
    Findings,
    host_records,
    record_of,
    save,
    simulated_areas,
)
from appliance.engine.look.survey import survey, view_of
from appliance.engine.plan.other_release import stages_of_other_release as outdated
from appliance.engine.run.lease import held_leases, report_held_leases
from appliance.engine.session import Session
from appliance.errors import ApplianceError, ConfigError
from appliance.journal import New
from appliance.models.acceptance import Acceptance
from appliance.models.events import Observer
from appliance.models.facts import HostFacts
from appliance.models.handover import Difference
from appliance.models.result import (
    CheckResult,
    ResultKey,
    Status,
    Verdict,
    overall,
    worse,
    worst_of_each,
)
from appliance.models.run import HostRecord, expected_of_host
from appliance.models.site import Role
from appliance.models.waiver import Waiver
from appliance.report import documents
from appliance.report.advice import for_the_control_machine
from appliance.stages.renamed import current


@dataclass(frozen=True)
class Health:
    """The results of one run; ``since``: when a failure was first seen without a pass after it.

    ``then``: the state of the site to compare with, if requested, and ``differences`` from it. ``acceptance``: of a whole site only.
    ``outdated``: stages with findings that another release of the program deployed. ``taken``: of a support bundle.
    ``alone``: how a machine without its site was judged.
    ``records``: the hosts as inventory, and ``leases``: who changes them from elsewhere; both only if requested.
    """

    site: str
    hosts: int
    seconds: float
    simulated: tuple[str, ...]
    results: tuple[CheckResult, ...]
    since: dict[ResultKey, datetime]
    waivers: tuple[Waiver, ...] = ()
    report: str = ""
    then: ReferenceDay | None = None
    differences: tuple[Difference, ...] = ()
    acceptance: Acceptance | None = None
    outdated: tuple[str, ...] = ()
    taken: datetime | None = None
    alone: str = ""
    records: tuple[HostRecord, ...] = ()
    leases: str = ""

    @property
    def verdict(self) -> Verdict:
        """The verdict of the results; an incomplete comparison makes a good site incomplete."""
        unknown = any(not one.known for one in self.differences)
        return worse(overall(self.results), Verdict.INCOMPLETE if unknown else Verdict.PASSED)


def look(
    target: Target,
    observer: Observer,
    checks: tuple[str, ...] = (),
    hosts: Sequence[str] = (),
    *,
    keep: bool = False,
    since: str = "",
    deep: bool = False,
    gates: bool = False,
    records: bool = False,
) -> Health:
    """Judges the current site. ``checks``: ids or areas ("fabric"); empty means all; ``keep``: as a report.

    ``since``: the state to compare with, in the notation of actions/monitoring/reference_day.py; ``deep``: including every file.
    ``gates``: also the gates of acceptance, if the whole site is judged. ``records``: also the hosts as inventory, and their leases.
    """
    checks = tuple(map(current, checks))
    ids = _ids(checks)
    with open_session(target, "health", observer, only_looks=True, keeps=keep) as session:
        only = named_hosts(hosts, [h.name for h in session.site.hosts], flag="--hosts")
        then = reference_day(session, since) if since else None
        findings = Findings()
        started = time.monotonic()
        found = survey(session, beside=_depth(since, deep=deep))
        seconds = time.monotonic() - started
        keep_postures(session, found)
        report_held_leases(session, found.facts)
        results, stands = judged(session, found, ids, checks, only)
        findings.results += results
        waivers, simulated = active(session), simulated_areas(session, found.facts)
        if keep:
            record = record_of(session, found, findings)
            save(session, record.model_copy(update={"waivers": waivers}))
        if not (checks or only):
            session.notices.health(overall(results))
        return Health(
            session.site.name,
            len(session.site.hosts),
            seconds,
            simulated,
            tuple(results),
            stands,
            waivers,
            str(session.folder_of_run / "report.html") if keep else "",
            then,
            session.redact.texts(_differences(session, then, found.facts, only)),
            acceptance_of(session, view_of(session, found), simulated)
            if gates and not (checks or only)
            else None,
            outdated(session, found.facts, results),
            records=session.redact.texts(host_inventory(session, found)) if records else (),
            leases=held_leases(session, found.facts) if records else "",
        )


def document_of(seen: Health) -> documents.Health:
    """The document of --json."""
    return documents.Health(
        site=seen.site,
        verdict=seen.verdict,
        seconds=round(seen.seconds, 3),
        simulated=seen.simulated,
        results=tuple(seen.results),
        waivers=seen.waivers,
        report=seen.report or None,
        since=seen.then.said if seen.then else None,
        differences=seen.differences if seen.then else None,
        outdated=seen.outdated,
        taken=seen.taken,
    )


def judged(
    session: Session,
    found: Round,
    ids: Iterable[str] = ALL_CHECK_IDS,
    wanted: Sequence[str] = (),
    only: Sequence[str] = (),
) -> tuple[list[CheckResult], dict[ResultKey, datetime]]:
    """Judge these answers and record what changed; the results, and since when failures exist.

    ``wanted``: the checks that were named, and ``only`` the hosts.
    """
    view = view_of(session, found)
    results = [r for r in judge_all(view, found, ids) if not only or r.host in only]
    results += _unmade(results, wanted, only)
    results = list(session.redact.texts(tuple(results)))
    return results, _remember(session, results)


def of_bundle(
    path: Path, observer: Observer, checks: tuple[str, ...] = (), hosts: Sequence[str] = ()
) -> Health:
    """Judges a support bundle, without contacting anything. Raises ConfigError if the file is none."""
    checks = tuple(map(current, checks))
    ids = _ids(checks)
    files = first_files(path, bundled.FOLDER)
    with bundled.opened(path, files, observer) as (session, found, site):
        only = named_hosts(hosts, [h.name for h in session.site.hosts], flag="--hosts")
        try:
            results, stands = judged(session, found, ids, checks, only)
            waivers = active(session)
        except (LookupError, TypeError, ValueError, AttributeError, ApplianceError) as error:
            raise ConfigError(
                f"{path} cannot be judged: {error}", "use the file as support-bundle wrote it"
            ) from error
        return Health(
            session.site.name,
            len(session.site.hosts),
            site.seconds,
            simulated_areas(session, found.facts),
            tuple(results),
            stands,
            waivers,
            outdated=outdated(session, found.facts, results),
            taken=site.taken,
        )


def of_this_machine(profile: str, checks: tuple[str, ...] = ()) -> Health:
    """Judge the machine where this program runs, without a site, as one of class ``profile`` (name or file).

    Raises ConfigError for an unknown class, or a check that needs the site; ApplianceError if the machine was not read.
    """
    checks = tuple(map(current, checks))
    ids = set(_ids(checks)) & alone.ALONE
    if not ids:
        raise ConfigError(
            f"{', '.join(checks)}: not judged without the site",
            "run health on the control machine, or leave --check out",
        )
    of_class = load_profile(profile, check_ids())
    name = re.sub(r"[^a-z0-9-]", "-", socket.gethostname().partition(".")[0].lower()).strip("-")
    started = time.monotonic()
    facts = alone.facts_of_this_machine(name or "localhost")
    seconds = time.monotonic() - started
    results = alone.judge_alone(facts, of_class, ids)
    kind = "a GPU host" if alone.is_gpu_host(facts) else "a host without GPUs"
    return Health(
        facts.host,
        1,
        seconds,
        facts.simulated,
        tuple(r.model_copy(update={"fix": for_the_control_machine(r.fix)}) for r in results),
        {},
        alone=f"{kind} of class {of_class.name}",
    )


def host_inventory(session: Session, found: Round) -> tuple[HostRecord, ...]:
    """The hosts as inventory, each GPU host with what its class expects."""
    gpu = {host.name: host for host in session.site.with_role(Role.GPU)}
    return tuple(
        record.model_copy(
            update={"expected": expected_of_host(gpu[record.name], session.profile_of(record.name))}
        )
        if record.name in gpu
        else record
        for record in host_records(session, found)
    )


def _differences(
    session: Session, then: ReferenceDay | None, facts: Mapping[str, HostFacts], only: Sequence[str]
) -> tuple[Difference, ...]:
    if then is None:
        return ()
    found = [
        *(differences(session, then.baseline, facts) if then.baseline else ()),
        *posture_differences(session, then.day, facts),
    ]
    return tuple(one for one in found if not only or one.host in only)


def _depth(since: str, *, deep: bool) -> Beside:
    if deep:
        return Beside.DEEP
    return Beside.QUICK if since else Beside.NOTHING


def _unmade(
    results: Sequence[CheckResult], wanted: Sequence[str], only: Sequence[str]
) -> Iterable[CheckResult]:
    """A check that was named but gave no verdict makes the result incomplete."""
    if any(r.id not in {REACHABLE, RECEIPTS} for r in results):
        return
    named = [name for name in wanted if name != REACHABLE]
    for name, host in product(named, only or ("",)):
        cause = f"{name} found nothing to check" + (f" on {host}" if host else "")
        yield not_assessed(host or "cluster", cause, fix="list the checks: appliance explain").of(
            name
        )


def _ids(wanted: tuple[str, ...]) -> tuple[str, ...]:
    chosen = tuple(
        i for i in ALL_CHECK_IDS if not wanted or i in wanted or i.split(".")[0] in wanted
    )
    unknown = [
        w
        for w in wanted
        if w not in {REACHABLE, *check_ids()}
        and not any(i.startswith(f"{w}.") for i in ALL_CHECK_IDS)
    ]
    if unknown:
        raise ConfigError(
            f"unknown check: {', '.join(unknown)}",
            near(unknown[0], sorted(ALL_CHECK_IDS), "list the checks: appliance explain"),
        )
    return chosen


def _remember(session: Session, results: list[CheckResult]) -> dict[ResultKey, datetime]:
    """Records state changes in the journal, and since when each failure exists."""
    last = KeptResults(session.journal.entries(KIND))
    since: dict[ResultKey, datetime] = {}
    changed: list[New] = []
    for key, result in worst_of_each([*results, *_mended(last, results)]).items():
        known = last.of(key)
        if result.status.value != (known.status if known else Status.PASS.value):
            data = {**key._asdict(), "status": result.status.value, "cause": result.cause}
            changed.append(New(KIND, data, host=result.host or ""))
        elif known and result.status is Status.FAIL:
            since[key] = known.time
    session.journal.append_all(session.run, changed)
    return since


def _mended(last: KeptResults, results: list[CheckResult]) -> list[CheckResult]:
    """A part is listed only while it is faulty: if its check judged that host without it, it is good."""
    judged = {(r.id, r.host) for r in results if r.status is not Status.NOT_ASSESSED}
    gone = [
        CheckResult(id=key.check, target=key.target, aspect=key.aspect, status=Status.PASS)
        for key in last.complaints(r.key for r in results)
    ]
    return [result for result in gone if (result.id, result.host) in judged]
