"""The table of ``appliance health``, which ``appliance console`` prints where it has no terminal."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

import click

from appliance.actions.monitoring.health import Health
from appliance.actions.monitoring.reference_day import ReferenceDay
from appliance.cli import options, spoken
from appliance.models.acceptance import Acceptance, Accepted
from appliance.models.handover import Difference
from appliance.models.result import CheckResult, Status
from appliance.report import difference_lines
from appliance.report.console import health_view
from appliance.report.findings import findings
from appliance.report.formatting import acceptance_words, moment
from appliance.stages.base import ids as base_ids
from appliance.text import plural

AGES = ((1440, "day"), (60, "hour"))
"""Minutes."""


def print_health(seen: Health, *, everything: bool, plan: str) -> None:
    """Prints findings, waivers, acceptance and differences. ``plan``: the command that plans this site."""
    if seen.taken:
        click.echo(f"Support bundle: hosts read {_age(seen.taken)}; nothing was contacted.")
    if seen.alone:
        click.echo(
            f"This machine alone, as {seen.alone}. Not judged: what depends on the site or on other hosts."
        )
    if seen.simulated:
        click.echo(f"Simulated: {', '.join(seen.simulated)}.")
    health_view(
        options.console(),
        seen.site,
        seen.results,
        findings(spoken.advice(seen.results), seen.since),
        hosts=seen.hosts,
        seconds=seen.seconds,
        commands=("appliance explain CHECK", *(() if seen.taken or seen.alone else (plan,))),
        everything=everything,
        waivers=seen.waivers,
        verdict=seen.verdict,
    )
    rest = _compared(seen.then, seen.differences)
    said = (*_outdated(seen.outdated), *_accepted(seen.acceptance), *_looked(seen.results))
    for line in (*said, *rest):
        options.echo(line)
    if seen.report:
        click.echo(f"  report  {seen.report}")


def _age(taken: datetime) -> str:
    """When the hosts were read, and how long ago."""
    minutes = int((datetime.now(UTC) - taken).total_seconds() // 60)
    ago = next(
        (plural(minutes // size, unit) for size, unit in AGES if minutes >= 2 * size),
        plural(max(minutes, 0), "minute"),
    )
    return f"{taken:%Y-%m-%d %H:%M} UTC, {ago} ago"


def _outdated(stages: tuple[str, ...]) -> Iterator[str]:
    """A new release may configure more than the one that deployed the hosts; the difference is shown with the findings."""
    if stages:
        yield spoken.advice(
            f"  Deployed by another release of this program: {', '.join(stages)}. To see what this release changes: appliance plan"
        )


def _accepted(found: Acceptance | None) -> Iterator[str]:
    """The verdict on the site in one line; none if hardware is simulated or the profile has no gates."""
    if found is None or found.verdict in {Accepted.SIMULATED, Accepted.NO_GATES}:
        return
    word, rest = acceptance_words(found)
    more = (
        "" if found.verdict is Accepted.YES else ". To list what is open: appliance accept --look"
    )
    yield spoken.advice(f"  Accepted: {word}. {rest.rstrip(':.')}{more}")


def _looked(results: Iterable[CheckResult]) -> Iterator[str]:
    """The age of the hosts' own weekly file scans; their results are findings."""
    days = [
        float(r.value)
        for r in results
        if r.id == base_ids.WEEKLY and r.status is Status.PASS and r.value is not None
    ]
    if days:
        span = f"{min(days):g}" if min(days) == max(days) else f"{min(days):g} to {max(days):g}"
        yield f"  Every file of {plural(len(days), 'host')} was unchanged, {span} {'day' if span == '1' else 'days'} ago."


def _compared(then: ReferenceDay | None, differences: tuple[Difference, ...]) -> Iterator[str]:
    if then is None:
        return
    day = moment(then.time)
    if not differences:
        yield f"  No differences since {then.said} of {day}."
        return
    yield f"  Since {then.said} of {day}:"
    yield from (f"    {line}" for line in difference_lines.lines(differences))
