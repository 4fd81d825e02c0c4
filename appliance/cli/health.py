"""appliance health"""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import click

from appliance.actions import health as action
from appliance.actions.since import Then
from appliance.cli import options, spoken
from appliance.models.acceptance import Acceptance, Accepted
from appliance.models.handover import Difference
from appliance.models.result import CheckResult, Status
from appliance.report import changes, documents, nagios, prometheus
from appliance.report.console import health_view
from appliance.report.findings import findings
from appliance.report.wording import acceptance_words, moment
from appliance.stages.base import ids as base_ids
from appliance.text import plural


@click.command()
@options.target_options
@options.host_option
@click.option(
    "--check", "checks", multiple=True, metavar="ID|AREA", help="Only these checks (repeatable)."
)
@click.option(
    "--format",
    "shape",
    type=click.Choice(["table", "json", "nagios", "prometheus"]),
    default="table",
    show_default=True,
)
@click.option("--all", "everything", is_flag=True, help="Optional values not assessed, too.")
@options.json_option("Short for --format json.")
@click.option(
    "--since",
    default="",
    metavar="WHAT",
    help="Also what has changed since then: handover, baseline, the id of a run, or a time as 2026-11-24.",
)
@click.option(
    "--deep",
    is_flag=True,
    help="With --since: programs with rights, files that packages did not bring so, modes; reads every file.",
)
@click.option("--report", "keep", is_flag=True, help="Keep this look as a report, HTML and JSON.")
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
) -> int:
    """Judge the site now: what is wrong, why, and what to do. Reads only.

    Exit: 0 good, 1 failed, 2 unusable input, 3 incomplete, as where --since could not compare all; with --format nagios the plugin's 0, 1, 2, 3.
    """
    if as_json and shape not in ("table", "json"):
        raise click.UsageError(f"--json and --format {shape} exclude each other")
    if since and shape in ("nagios", "prometheus"):
        raise click.UsageError(f"--since goes with the table and with --json, not with {shape}")
    if deep and not since:
        raise click.UsageError("--deep goes with --since: it compares")
    seen = action.look(
        options.target(inventory, profile),
        options.quiet(),
        checks,
        hosts,
        keep=keep,
        since=since,
        deep=deep,
        gates=shape == "table" and not as_json,
    )
    verdict = seen.verdict
    match "json" if as_json else shape:
        case "json":
            document = documents.Health(
                site=seen.site,
                verdict=verdict,
                seconds=round(seen.seconds, 3),
                simulated=seen.simulated,
                results=tuple(seen.results),
                waivers=seen.waivers,
                report=seen.report if keep else None,
                since=seen.then.said if seen.then else None,
                differences=seen.differences if seen.then else None,
                outdated=seen.outdated,
            )
            options.echo_json(document)
        case "nagios":
            text, code = nagios.render(seen.site, spoken.advice_elsewhere(seen.results))
            click.echo(text, nl=False)
            return int(code)
        case "prometheus":
            click.echo(prometheus.render(seen.site, seen.results, datetime.now(UTC)), nl=False)
        case _:
            if seen.simulated:
                click.echo(f"Simulated here: {', '.join(seen.simulated)}.")
            health_view(
                options.console(),
                seen.site,
                seen.results,
                findings(spoken.advice(seen.results), seen.since),
                hosts=seen.hosts,
                seconds=seen.seconds,
                commands=(
                    "appliance explain CHECK",
                    options.command_line(inventory, profile, "plan"),
                ),
                everything=everything,
                waivers=seen.waivers,
                verdict=verdict,
            )
            rest = _compared(seen.then, seen.differences)
            said = (*_outdated(seen.outdated), *_accepted(seen.acceptance), *_looked(seen.results))
            for line in (*said, *rest):
                options.echo(line)
            if keep:
                click.echo(f"  report  {seen.report}")
    return verdict.exit_code


def _outdated(stages: tuple[str, ...]) -> Iterator[str]:
    """A new release asks more of hosts than an old one gave them: that is told beside what is wrong."""
    if stages:
        yield spoken.advice(
            f"  Deployed by another release of this program: {', '.join(stages)}. What this one adds is not there yet: appliance plan"
        )


def _accepted(found: Acceptance | None) -> Iterator[str]:
    """The verdict on the site in one line; none where hardware is simulated or its profile has no gates."""
    if found is None or found.verdict in {Accepted.SIMULATED, Accepted.NO_GATES}:
        return
    word, rest = acceptance_words(found)
    more = "" if found.verdict is Accepted.YES else ". Which: appliance accept --look"
    yield spoken.advice(f"  Accepted: {word}. {rest.rstrip(':.')}{more}")


def _looked(results: Iterable[CheckResult]) -> Iterator[str]:
    """How old the hosts' own looks at every file are; what they found is told as a finding."""
    days = [
        float(r.value)
        for r in results
        if r.id == base_ids.WEEKLY and r.status is Status.PASS and r.value is not None
    ]
    if days:
        span = f"{min(days):g}" if min(days) == max(days) else f"{min(days):g} to {max(days):g}"
        yield f"  Every file of {plural(len(days), 'host')} as it was, {span} {'day' if span == '1' else 'days'} ago."


def _compared(then: Then | None, differences: tuple[Difference, ...]) -> Iterator[str]:
    if then is None:
        return
    day = moment(then.time)
    if not differences:
        yield f"  Nothing differs from {then.said} of {day}."
        return
    yield f"  Since {then.said} of {day}:"
    yield from (f"    {line}" for line in changes.lines(differences))
