"""Discover: reads and judges the hardware inventory of all BMCs; changes nothing, and needs no operating system on the hosts."""

import time
from dataclasses import dataclass

from appliance.actions.sites.opening import Target, open_session
from appliance.bmc.checks.firmware import versions_of
from appliance.checks.check import View
from appliance.engine.look.controllers import (
    ControllerRound,
    ask,
    controllers,
    hosts_without_controller,
    judge,
)
from appliance.engine.look.gather import Round, Unanswered
from appliance.engine.look.run_record import Findings, keep, record_of, save
from appliance.engine.session import Session
from appliance.models.bmc import BmcFacts
from appliance.models.events import Observer
from appliance.models.result import CheckResult

NOT_ASKED = "discover uses the BMCs only"


@dataclass(frozen=True)
class Discovered:
    """The result of one discovery."""

    site: str
    seconds: float
    facts: dict[str, BmcFacts]
    results: tuple[CheckResult, ...]
    report: str = ""


def discover(
    target: Target, observer: Observer, hosts: tuple[str, ...] = (), *, report: bool = False
) -> Discovered:
    """Reads the BMCs of ``hosts`` (none: all) and judges their answers. ``report``: keep it as a report."""
    with open_session(
        target, "discover", observer, only_looks=True, keeps=report, by_ssh=False
    ) as session:
        known = controllers(session, hosts)
        findings = Findings()
        started = time.monotonic()
        found = ask(known)
        seconds = time.monotonic() - started
        view = View(session.profile, session.site, {})
        results = judge(view, found) + ([] if hosts else hosts_without_controller(view))
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
