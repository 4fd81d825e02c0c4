"""Health: the checks of every stage on fresh facts; reads hosts only."""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import product

from appliance.actions.bounds import check_ids
from appliance.actions.opening import Target, open_session
from appliance.actions.since import Then, then_of
from appliance.checks.check import not_assessed
from appliance.config.rules.base import near
from appliance.engine.acceptance import acceptance_of
from appliance.engine.baseline import differences
from appliance.engine.judge import REACHABLE, RECEIPTS, judge_all
from appliance.engine.lease import tell_held
from appliance.engine.named import named
from appliance.engine.outdated import outdated
from appliance.engine.posture import keep_postures, posture_differences
from appliance.engine.record import Findings, record_of, save, simulated_areas
from appliance.engine.requests import ALL_CHECK_IDS, Beside
from appliance.engine.session import Session
from appliance.engine.survey import survey, view_of
from appliance.engine.waivers import active
from appliance.errors import ConfigError
from appliance.journal import New
from appliance.models.acceptance import Acceptance
from appliance.models.events import Observer
from appliance.models.facts import HostFacts
from appliance.models.handover import Difference
from appliance.models.result import CheckResult, Status, Verdict, overall, worse
from appliance.models.waiver import Waiver

Key = tuple[str, str]


@dataclass(frozen=True)
class Health:
    """The results of one look; ``since``: when a failure was first seen without a good look after it.

    ``then``: how the site was, where that was asked for, and ``differences`` from it. ``acceptance``: only of a whole site.
    ``outdated``: stages with complaints that another release of the program deployed.
    """

    site: str
    hosts: int
    seconds: float
    simulated: tuple[str, ...]
    results: tuple[CheckResult, ...]
    since: dict[Key, datetime]
    waivers: tuple[Waiver, ...] = ()
    report: str = ""
    then: Then | None = None
    differences: tuple[Difference, ...] = ()
    acceptance: Acceptance | None = None
    outdated: tuple[str, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """Of the results; what could not be compared keeps a good site from being called so."""
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
) -> Health:
    """Judges the site as it is now. ``checks``: ids or areas ("fabric"); empty means all; ``keep``: as a report.

    ``since``: what it is compared with besides, as actions/since.py takes it; ``deep``: and by every file. ``gates``: also what acceptance asks for,
    where the whole site is judged.
    """
    ids = _ids(checks)
    with open_session(target, "health", observer, only_looks=True, keeps=keep) as session:
        only = named(hosts, [h.name for h in session.site.hosts], flag="--host")
        then = then_of(session, since) if since else None
        findings = Findings()
        started = time.monotonic()
        found = survey(session, beside=_beside(since, deep=deep))
        seconds = time.monotonic() - started
        keep_postures(session, found)
        tell_held(session, found.facts)
        view = view_of(session, found)
        results = [r for r in judge_all(view, found, ids) if not only or r.host in only]
        results += _unmade(results, checks, only)
        results = list(session.redact.texts(tuple(results)))
        stands = _remember(session, results)
        findings.results += results
        waivers, simulated = active(session), simulated_areas(session, found.facts)
        if keep:
            record = record_of(session, found, findings)
            save(session, record.model_copy(update={"waivers": waivers}))
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
            acceptance_of(session, view, simulated) if gates and not (checks or only) else None,
            outdated(session, found.facts, results),
        )


def _differences(
    session: Session, then: Then | None, facts: Mapping[str, HostFacts], only: Sequence[str]
) -> tuple[Difference, ...]:
    if then is None:
        return ()
    found = [
        *(differences(session, then.baseline, facts) if then.baseline else ()),
        *posture_differences(session, then.day, facts),
    ]
    return tuple(one for one in found if not only or one.host in only)


def _beside(since: str, *, deep: bool) -> Beside:
    if deep:
        return Beside.DEEP
    return Beside.QUICK if since else Beside.NOTHING


def _unmade(
    results: Sequence[CheckResult], wanted: Sequence[str], only: Sequence[str]
) -> Iterable[CheckResult]:
    """What was asked for by name and gave no verdict at all is not good for that."""
    if any(r.id not in {REACHABLE, RECEIPTS} for r in results):
        return
    named = [name for name in wanted if name != REACHABLE]
    for name, host in product(named, only or ("",)):
        cause = f"{name} has nothing to judge" + (f" on {host}" if host else "")
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
            f"no check is called {', '.join(unknown)}",
            near(unknown[0], sorted(ALL_CHECK_IDS), "list them: appliance explain"),
        )
    return chosen


def _remember(session: Session, results: list[CheckResult]) -> dict[Key, datetime]:
    """Notes state changes in the journal and says since when each failure stands."""
    last: dict[Key, tuple[str, datetime]] = {}
    looks: dict[str, datetime] = {}
    for entry in session.journal.entries("health"):
        last[str(entry.data["check"]), str(entry.data["target"])] = (
            str(entry.data["status"]),
            looks.setdefault(entry.run, entry.time),
        )
    since: dict[Key, datetime] = {}
    changed: list[New] = []
    for result in [*results, *_mended(last, results)]:
        key = (result.id, result.target)
        known = last.get(key, (Status.PASS.value, None))
        if known[0] != result.status.value:
            data = {
                "check": result.id,
                "target": result.target,
                "status": result.status.value,
                "cause": result.cause,
            }
            changed.append(New("health", data, host=result.host or ""))
        elif known[1] is not None and result.status is Status.FAIL:
            since[key] = known[1]
    session.journal.append_all(session.run, changed)
    return since


def _mended(
    last: Mapping[Key, tuple[str, datetime]], results: list[CheckResult]
) -> list[CheckResult]:
    """A part is named only while something is wrong with it: where its check judged that host without it, it is good."""
    named = {(r.id, r.target) for r in results}
    judged = {(r.id, r.host) for r in results if r.status is not Status.NOT_ASSESSED}
    gone = [
        CheckResult(id=check, target=target, status=Status.PASS)
        for (check, target), (status, _) in last.items()
        if status != Status.PASS.value and (check, target) not in named
    ]
    return [result for result in gone if (result.id, result.host) in judged]
