"""Discover: what the management controllers say of all machines, judged; changes nothing, and needs no system on them."""

import time
from dataclasses import dataclass

from appliance.actions.opening import Target, open_session
from appliance.bmc.checks.firmware import versions_of
from appliance.checks.check import View
from appliance.engine.controllers import ControllerRound, ask, controllers, judge, without
from appliance.engine.gather import Round, Unanswered
from appliance.engine.record import Findings, keep, record_of, save
from appliance.engine.session import Session
from appliance.models.bmc import BmcFacts
from appliance.models.events import Observer
from appliance.models.result import CheckResult

NOT_ASKED = "discover asks the management controllers only"


@dataclass(frozen=True)
class Discovered:
    """What one look found."""

    site: str
    seconds: float
    facts: dict[str, BmcFacts]
    results: tuple[CheckResult, ...]
    report: str = ""


def discover(
    target: Target, observer: Observer, hosts: tuple[str, ...] = (), *, report: bool = False
) -> Discovered:
    """Asks the controllers of ``hosts`` (none: all) and judges what they say. ``report``: as a report."""
    with open_session(
        target, "discover", observer, only_looks=True, keeps=report, by_ssh=False
    ) as session:
        known = controllers(session, hosts)
        findings = Findings()
        started = time.monotonic()
        found = ask(known)
        seconds = time.monotonic() - started
        view = View(session.profile, session.site, {})
        results = judge(view, found) + ([] if hosts else without(view))
        findings.results += results
        if report:
            _keep(session, found, findings)
        return Discovered(
            session.site.name,
            seconds,
            dict(found.facts),
            tuple(results),
            str(session.folder_of_run / "report.html") if report else "",
        )


def _keep(session: Session, found: ControllerRound, findings: Findings) -> None:
    silent = {h.name: Unanswered(h.name, NOT_ASKED, "") for h in session.site.hosts}
    record = record_of(session, Round({}, silent), findings)
    evidence = tuple(keep(session, "controllers", facts) for facts in found.facts.values())
    versions = {name: dict(versions_of(facts)) for name, facts in found.facts.items()}
    save(session, record.model_copy(update={"evidence": evidence, "versions": versions}))
