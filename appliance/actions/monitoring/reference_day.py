"""The earlier state of a site: at its hand-over, in the report of a run, or at a time."""

from dataclasses import dataclass
from datetime import UTC, datetime

from pydantic import ValidationError

from appliance.actions.sites import reports
from appliance.engine.accept import baseline
from appliance.engine.look.posture import ACCEPTED, Day, accepted_day
from appliance.engine.session import Session
from appliance.errors import ApplianceError, ConfigError
from appliance.models.handover import Baseline
from appliance.text import first_few

HANDOVER, BASELINE = "handover", "baseline"


@dataclass(frozen=True)
class ReferenceDay:
    """The earlier site, None if only a baseline exists; and a description of that day.

    ``day``: the date for which accounts, packages and files of the hosts are compared.
    """

    baseline: Baseline | None
    said: str
    time: datetime
    day: Day


def reference_day(session: Session, since: str) -> ReferenceDay:
    """``since``: "handover", "baseline", the id of a run with a report, or a local time such as 2026-11-24 or 2026-11-24T14:00.

    For a time, the last report before it is used. Raises ConfigError if there is none.
    """
    if since == HANDOVER:
        return _handed_over(session)
    if since == BASELINE:
        return _accepted_day(session)
    kept = {folder.name for folder in reports.runs(session.runs)}
    if since in kept:
        record = reports.load(session.runs, since).record
        return ReferenceDay(
            baseline.baseline_of_record(record),
            f"run {since}",
            record.finished,
            Day(until=record.finished),
        )
    try:
        time = datetime.fromisoformat(since).astimezone()
    except (ValueError, OverflowError):
        raise ConfigError(
            f'--since "{since}" is not "{HANDOVER}", "{BASELINE}", a run with a report, or a time',
            f'use "{HANDOVER}", "{BASELINE}", a time such as 2026-11-24 or 2026-11-24T14:00, or a run: appliance report --list',
        ) from None
    if time > datetime.now(UTC):
        raise ConfigError(
            f"--since {since} is in the future",
            "name a time in the past, or a run: appliance report --list",
        )
    ill: list[str] = []
    for folder in reversed(reports.runs(session.runs)):
        try:
            record = reports.load(session.runs, folder.name).record
        except ApplianceError:
            ill.append(folder.name)
            continue
        if record.finished <= time and record.hosts:
            beside = f" (the report of {first_few(ill)} cannot be read)" if ill else ""
            said = f"run {folder.name}{beside}"
            return ReferenceDay(
                baseline.baseline_of_record(record), said, record.finished, Day(until=time)
            )
    raise ConfigError(
        f"this site has no report from before {since}", "list the runs: appliance report --list"
    )


def _handed_over(session: Session) -> ReferenceDay:
    try:
        found = baseline.handed_over_baseline(session)
    except (KeyError, ValidationError) as error:
        raise ConfigError(
            "the hand-over in the site's record was written by another version of the program",
            "compare with a run instead: appliance report --list",
        ) from error
    if found is None:
        raise ConfigError(
            f"site {session.site.name} was never handed over",
            "hand it over: appliance accept; or compare with a run: appliance report --list",
        )
    return ReferenceDay(found, "the hand-over", found.accepted, accepted_day(session))


def _accepted_day(session: Session) -> ReferenceDay:
    entry = session.journal.last(ACCEPTED)
    if entry is None:
        raise ConfigError(
            f"site {session.site.name} has no baseline",
            "record one: appliance baseline accept --reason TEXT",
        )
    said = f"the baseline ({entry.data.get('reason')})"
    return ReferenceDay(None, said, entry.time, Day(seq=entry.seq))
