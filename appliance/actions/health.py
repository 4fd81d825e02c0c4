"""Health: the checks of every stage on fresh facts; reads hosts only."""

import time
from dataclasses import dataclass
from datetime import date

from appliance.actions.opening import Target, check_ids, open_session
from appliance.checks.check import View
from appliance.engine.earlier import earlier_facts
from appliance.engine.gather import gather
from appliance.engine.judge import REACHABLE, judge_all
from appliance.engine.record import simulated_areas
from appliance.engine.requests import ALL_CHECK_IDS, request_for
from appliance.engine.session import Session
from appliance.errors import ConfigError
from appliance.models.events import Observer
from appliance.models.result import CheckResult, Status

Key = tuple[str, str]


@dataclass(frozen=True)
class Health:
    """The results of one look; ``since``: the day a failure was first seen without a good day after it."""

    site: str
    hosts: int
    seconds: float
    simulated: tuple[str, ...]
    results: tuple[CheckResult, ...]
    since: dict[Key, date]


def look(
    target: Target, observer: Observer, checks: tuple[str, ...] = (), host: str = ""
) -> Health:
    """Judges the site as it is now. ``checks``: ids or areas ("fabric"); empty means all."""
    ids = _ids(checks)
    with open_session(target, "health", observer) as session:
        if host and host not in {h.name for h in session.site.hosts}:
            raise ConfigError(f"--host {host}: no such host in site {session.site.name}")
        started = time.monotonic()
        found = gather(
            session.remote, {h.name: request_for(session, h.name) for h in session.site.hosts}
        )
        seconds = time.monotonic() - started
        view = View(session.profile, session.site, found.facts, earlier_facts(session))
        results = [
            r
            for r in judge_all(view, found, ids)
            if (r.id == REACHABLE or r.id in ids) and (not host or r.host == host)
        ]
        since = _remember(session, results)
        return Health(
            session.site.name,
            len(session.site.hosts),
            seconds,
            simulated_areas(session, found.facts),
            tuple(results),
            since,
        )


def _ids(wanted: tuple[str, ...]) -> tuple[str, ...]:
    chosen = tuple(
        i for i in ALL_CHECK_IDS if not wanted or i in wanted or i.split(".")[0] in wanted
    )
    unknown = [
        w
        for w in wanted
        if w not in check_ids() and not any(i.startswith(f"{w}.") for i in ALL_CHECK_IDS)
    ]
    if unknown:
        raise ConfigError(
            f"no check is called {', '.join(unknown)}", "list them: appliance explain"
        )
    return chosen


def _remember(session: Session, results: list[CheckResult]) -> dict[Key, date]:
    """Notes state changes in the journal and says since when each failure stands."""
    last: dict[Key, tuple[str, date]] = {}
    for entry in session.journal.entries("health"):
        last[str(entry.data["check"]), str(entry.data["target"])] = (
            str(entry.data["status"]),
            entry.time.astimezone().date(),
        )
    since: dict[Key, date] = {}
    for result in results:
        key = (result.id, result.target)
        known = last.get(key, (Status.PASS.value, None))
        if known[0] != result.status.value:
            session.journal.append(
                session.run,
                "health",
                host=result.host or "",
                check=result.id,
                target=result.target,
                status=result.status.value,
                cause=session.redact(result.cause),
            )
        elif known[1] is not None and result.status is Status.FAIL:
            since[key] = known[1]
    return since
