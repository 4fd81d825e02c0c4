"""How a site was: at its hand-over, in the report of a run, or at a time."""

from dataclasses import dataclass
from datetime import UTC, datetime

from pydantic import ValidationError

from appliance.actions import report
from appliance.engine import baseline
from appliance.engine.posture import ACCEPTED, Day, accepted_day
from appliance.engine.session import Session
from appliance.errors import ApplianceError, ConfigError
from appliance.models.handover import Baseline
from appliance.text import first_few

HANDOVER, BASELINE = "handover", "baseline"


@dataclass(frozen=True)
class Then:
    """The site as it was, None where only what hosts are beside their stages was taken; what is known of that day, in words.

    ``day``: as of when accounts, packages and files of the hosts are compared.
    """

    baseline: Baseline | None
    said: str
    time: datetime
    day: Day


def then_of(session: Session, since: str) -> Then:
    """``since``: "handover", "baseline", the id of a run that left a report, or a local time as 2026-11-24 or 2026-11-24T14:00.

    Of a time the last report before it counts. Raises ConfigError where there is none such.
    """
    if since == HANDOVER:
        return _handed_over(session)
    if since == BASELINE:
        return _taken(session)
    kept = {folder.name for folder in report.runs(session.runs)}
    if since in kept:
        record = report.load(session.runs, since).record
        return Then(
            baseline.of_record(record), f"run {since}", record.finished, Day(until=record.finished)
        )
    try:
        time = datetime.fromisoformat(since).astimezone()
    except (ValueError, OverflowError):
        raise ConfigError(
            f'--since "{since}" is no hand-over, no baseline, no run with a report and no time',
            f'take "{HANDOVER}", "{BASELINE}", a time as 2026-11-24 or 2026-11-24T14:00, or a run: appliance report --list',
        ) from None
    if time > datetime.now(UTC):
        raise ConfigError(
            f"--since {since} is yet to come",
            "name a time that is over, or a run: appliance report --list",
        )
    ill: list[str] = []
    for folder in reversed(report.runs(session.runs)):
        try:
            record = report.load(session.runs, folder.name).record
        except ApplianceError:
            ill.append(folder.name)
            continue
        if record.finished <= time and record.hosts:
            beside = f" (the report of {first_few(ill)} cannot be read)" if ill else ""
            said = f"run {folder.name}{beside}"
            return Then(baseline.of_record(record), said, record.finished, Day(until=time))
    raise ConfigError(
        f"no report of this site is as old as {since}", "list the runs: appliance report --list"
    )


def _handed_over(session: Session) -> Then:
    try:
        found = baseline.handed_over(session)
    except (KeyError, ValidationError) as error:
        raise ConfigError(
            "the hand-over in the site's record was written by another version of the program",
            "compare with a run instead: appliance report --list",
        ) from error
    if found is None:
        raise ConfigError(
            f"no hand-over of site {session.site.name} is recorded",
            "hand it over: appliance accept; or compare with a run: appliance report --list",
        )
    return Then(found, "the hand-over", found.accepted, accepted_day(session))


def _taken(session: Session) -> Then:
    entry = session.journal.last(ACCEPTED)
    if entry is None:
        raise ConfigError(
            f"no baseline of site {session.site.name} is recorded",
            "take one: appliance baseline accept --reason TEXT",
        )
    said = f"the baseline ({entry.data.get('reason')})"
    return Then(None, said, entry.time, Day(seq=entry.seq))
