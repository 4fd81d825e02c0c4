"""appliance health"""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import click

from appliance.actions.monitoring import health as action
from appliance.actions.monitoring.reference_day import ReferenceDay
from appliance.cli import options, spoken
from appliance.cli.files import InputFile
from appliance.models.acceptance import Acceptance, Accepted
from appliance.models.handover import Difference
from appliance.models.result import CheckResult, Status
from appliance.report import difference_lines, junit, nagios, prometheus
from appliance.report.console import health_view
from appliance.report.findings import findings
from appliance.report.formatting import acceptance_words, moment
from appliance.stages.base import ids as base_ids
from appliance.text import plural

AGES = ((1440, "day"), (60, "hour"))
"""Minutes."""


@click.command()
@options.target_options
@options.host_option
@click.option(
    "--check",
    "checks",
    multiple=True,
    metavar="ID|AREA",
    help="Run only these checks (repeatable).",
)
@options.format_option("junit", "nagios", "prometheus")
@click.option(
    "--all", "everything", is_flag=True, help="Also list optional values that were not assessed."
)
@options.json_option("Short for --format json.")
@click.option(
    "--since",
    default="",
    metavar="WHAT",
    help="Also show changes since: handover, baseline, the id of a run, or a date such as 2026-11-24.",
)
@click.option(
    "--deep",
    is_flag=True,
    help="With --since: also compare setuid programs, files that differ from their package, and file modes; reads every file.",
)
@click.option("--report", "keep", is_flag=True, help="Keep the result as a report, HTML and JSON.")
@click.option(
    "--bundle",
    type=InputFile(),
    metavar="FILE",
    help="Judge a support bundle instead of the site. Nothing is contacted.",
)
def health(
    inventory: Path | None,
    profile: str | None,
    hosts: tuple[str, ...],
    checks: tuple[str, ...],
    shape: str,
    as_json: bool,
    keep: bool,
    everything: bool,
    since: str,
    deep: bool,
    bundle: Path | None,
) -> int:
    """Check the site now: show faults, causes and remedies. Reads only.

    Exit: 0 good, 1 failed, 2 unusable input, 3 incomplete, also if --since could not compare everything. With --format nagios: the exit codes of a Nagios plugin, 0 to 3.
    """
    shape = options.chosen_format(shape, as_json)
    if since and shape not in ("table", "json"):
        raise click.UsageError(
            f"--since works with the table and with --json, not with --format {shape}"
        )
    if deep and not since:
        raise click.UsageError("--deep needs --since")
    if bundle:
        if inventory or profile or since or keep:
            raise click.UsageError(
                "--bundle excludes --inventory, --profile, --since and --report: the archive contains the site"
            )
        seen = action.of_bundle(bundle, options.quiet(), checks, hosts)
    else:
        seen = action.look(
            options.target(inventory, profile),
            options.quiet(),
            checks,
            hosts,
            keep=keep,
            since=since,
            deep=deep,
            gates=shape == "table",
        )
    if shape == "nagios":
        text, code = nagios.render(seen.site, spoken.advice_elsewhere(seen.results))
        click.echo(text, nl=False)
        return int(code)
    if shape == "prometheus":
        click.echo(prometheus.render(seen.site, seen.results, datetime.now(UTC)), nl=False)
    elif shape == "junit":
        told = spoken.advice_elsewhere(seen.results)
        click.echo(junit.render_health(seen.site, told, seen.verdict, seen.simulated), nl=False)
    elif shape == "json":
        options.echo_json(action.document_of(seen))
    else:
        plan = options.command_line(inventory, profile, "plan")
        _table(seen, everything=everything, plan=plan)
    return seen.verdict.exit_code


def _table(seen: action.Health, *, everything: bool, plan: str) -> None:
    if seen.taken:
        click.echo(f"Support bundle: hosts read {_age(seen.taken)}; nothing was contacted.")
    if seen.simulated:
        click.echo(f"Simulated: {', '.join(seen.simulated)}.")
    health_view(
        options.console(),
        seen.site,
        seen.results,
        findings(spoken.advice(seen.results), seen.since),
        hosts=seen.hosts,
        seconds=seen.seconds,
        commands=("appliance explain CHECK", *(() if seen.taken else (plan,))),
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
