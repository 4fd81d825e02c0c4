"""History: who changed a site and when, by its journal. The site itself is not judged."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from appliance.actions.sites.opening import CLOSED, OPENED
from appliance.journal import Entry, Journal

STARTED, FINISHED = "run_started", "run_finished"
HOSTS = {"host_done": "changed", "host_failed": "failed"}
"""Kinds of entries of one host and stage, and where they are kept."""


@dataclass
class Run:
    """One run. ``outcome``: a verdict, done, failed, refused, declined, interrupted or unfinished."""

    run: str
    started: datetime
    verb: str = ""
    who: str = ""
    scope: str = ""
    appliance: str = ""
    finished: datetime | None = None
    outcome: str = "unfinished"
    changed: dict[str, list[str]] = field(default_factory=dict)
    failed: dict[str, list[str]] = field(default_factory=dict)


def history(folder: Path) -> tuple[Run, ...]:
    """The runs in this folder's journal that changed the site or held its lock, oldest first."""
    if not (folder / "journal.sqlite").exists():
        return ()
    with Journal(folder, needed=False) as journal:
        return _runs(journal.entries(OPENED, STARTED, FINISHED, CLOSED, *HOSTS))


def _runs(entries: Iterable[Entry]) -> tuple[Run, ...]:
    found: dict[str, Run] = {}
    for entry in entries:
        run = found.setdefault(entry.run, Run(entry.run, entry.time))
        if entry.kind in HOSTS:
            _add_host(run, entry)
        elif entry.kind == FINISHED:
            run.finished, run.outcome = entry.time, _outcome(entry.data)
        elif entry.kind == CLOSED:
            said = str(entry.data.get("outcome"))
            run.outcome = said if run.finished is None or said == "interrupted" else run.outcome
            run.finished = entry.time
        else:
            run.verb = str(entry.data.get("verb") or run.verb)
            run.who = str(entry.data.get("who") or run.who)
            run.scope = str(entry.data.get("scope") or run.scope)
            run.appliance = str(entry.data.get("appliance") or run.appliance)
    return tuple(found.values())


def _add_host(run: Run, entry: Entry) -> None:
    if entry.kind == "host_done" and not entry.data.get("changes"):
        return
    hosts = getattr(run, HOSTS[entry.kind]).setdefault(entry.stage or entry.data.get("stage"), [])
    if (host := entry.host or str(entry.data.get("host"))) not in hosts:
        hosts.append(host)
        hosts.sort()


def _outcome(data: Mapping[str, object]) -> str:
    if data.get("interrupted"):
        return "interrupted"
    if data.get("verdict"):
        return str(data["verdict"])
    return "failed" if data.get("exit") else "done"
