"""Queries all BMCs of a site concurrently. A BMC that does not answer is a value, not an error."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from appliance.adapters.redfish import Controller, Patience
from appliance.bmc.checks import CHECKS
from appliance.bmc.defaults import SOLD_WITH
from appliance.bmc.inventory import inventory
from appliance.checks import extra_results
from appliance.checks.check import View, failed, not_assessed, passed
from appliance.config import known_bmcs
from appliance.engine.host_names import named_hosts
from appliance.engine.look.gather import Unanswered, each
from appliance.engine.session import Session
from appliance.errors import ApplianceError, ConfigError
from appliance.models.bmc import BmcFacts
from appliance.models.result import CheckResult
from appliance.models.site import Host
from appliance.text import one_line, shortened

REACHABLE = extra_results.CONTROLLER
NO_BMC = "write its address, user and password: hosts[].bmc (docs/discover.md)"


DEFECT = "check the BMC's responses for invalid data; if they are valid, report a bug in appliance"


@dataclass(frozen=True)
class ControllerRound:
    """One round of requests: facts by host, and the BMCs that did not answer."""

    facts: Mapping[str, BmcFacts]
    unanswered: Mapping[str, Unanswered]


def controllers(session: Session, names: Iterable[str] = ()) -> dict[str, Controller]:
    """Return how to reach the BMC of each of these hosts; without names, of all hosts that have one.

    Raises ConfigError for an unknown host, a host without a BMC, and a site without any BMC.
    """
    hosts = {host.name: host for host in session.site.hosts}
    wanted = named_hosts(names, list(hosts))
    for name in wanted:
        if hosts[name].bmc is None:
            raise ConfigError(f"{name} has no BMC in site.yml", NO_BMC)
    pinned = known_bmcs.read(session.folder)
    found = {
        name: _controller(session, host, pinned)
        for name, host in hosts.items()
        if host.bmc and (not wanted or name in wanted)
    }
    if not found:
        raise ConfigError(f"no host of site {session.site.name} has a BMC", NO_BMC)
    return found


def _controller(session: Session, host: Host, pinned: Mapping[str, str]) -> Controller:
    assert host.bmc is not None
    authority = session.folder / host.bmc.authority if host.bmc.authority else None
    return Controller(
        host=host.name,
        address=str(host.bmc.address),
        port=host.bmc.port,
        user=host.bmc.user,
        password=session.secrets[f"bmc.{host.name}"],
        fingerprint="" if authority else pinned.get(known_bmcs.name_of(host.bmc), ""),
        authority=authority,
    )


def ask(known: Mapping[str, Controller], patience: Patience | None = None) -> ControllerRound:
    """Request each BMC's inventory."""
    facts: dict[str, BmcFacts] = {}
    unanswered: dict[str, Unanswered] = {}

    def work(name: str) -> BmcFacts | Unanswered:
        try:
            found = inventory(known[name], patience)
        except ApplianceError as error:
            return Unanswered(name, error.message, error.hint, away=True)
        except Exception as error:  # noqa: BLE001 - a controller answers what it likes, and ends no look at the others
            said = shortened(one_line(f"{type(error).__name__}: {error}"), 200)
            return Unanswered(
                name, f"its BMC's responses cannot be read ({said})", DEFECT, away=True
            )
        return found.model_copy(update={"default_password": str(known[name].password) in SOLD_WITH})

    for name, answer in each(known, work):
        if isinstance(answer, BmcFacts):
            facts[name] = answer
        else:
            unanswered[name] = answer
    return ControllerRound(facts, unanswered)


def judge(view: View, found: ControllerRound) -> list[CheckResult]:
    """Judge every BMC that was queried, in the site's order, reachability first."""
    seen = replace(view, controllers=found.facts)
    results: list[CheckResult] = []
    for host in view.site.hosts:
        if away := found.unanswered.get(host.name):
            results.append(failed(host.name, away.cause, away.fix).of(REACHABLE))
        elif facts := found.facts.get(host.name):
            results.append(passed(host.name, facts.controller or None).of(REACHABLE))
            results += [r for check in CHECKS for r in check.results(seen, host, facts)]
    return results


def hosts_without_controller(view: View) -> list[CheckResult]:
    """Return hosts for which the site names no BMC; nothing is known of their hardware."""
    why = "site.yml sets no BMC for it"
    return [
        not_assessed(host.name, why, required=False, fix=NO_BMC).of(REACHABLE)
        for host in view.site.hosts
        if host.bmc is None
    ]
