"""appliance health"""

from datetime import UTC, datetime
from pathlib import Path

import click

from appliance.actions.monitoring import health as action
from appliance.cli import options, spoken
from appliance.cli.files import InputFile
from appliance.cli.health_table import print_health
from appliance.report import junit, nagios, prometheus


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
@click.option(
    "--local",
    "is_local",
    is_flag=True,
    help="Judge only this machine, without a site, as one of the class --profile.",
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
    is_local: bool,
) -> int:
    """Check the site now: show faults, causes and remedies. Reads only.

    Exit: 0 good, 1 failed, 2 unusable input, 3 incomplete, also if --since could not compare everything. With --format nagios: the exit codes of a Nagios plugin, 0 to 3.
    """
    shape = options.chosen_format(shape, as_json)
    _require_table_or_json(shape, since, deep=deep)
    is_of_site = bool(inventory or since or keep)
    if is_local:
        if is_of_site or hosts or bundle:
            raise click.UsageError(
                "--local excludes --site, --hosts, --since, --report and --bundle: it judges this machine alone"
            )
        seen = action.of_this_machine(_required(profile), checks)
    elif bundle:
        if is_of_site or profile:
            raise click.UsageError(
                "--bundle excludes --site, --profile, --since and --report: the archive contains the site"
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
        print_health(seen, everything=everything, plan=plan)
    return seen.verdict.exit_code


def _require_table_or_json(shape: str, since: str, *, deep: bool) -> None:
    """Raises UsageError for a comparison that the format cannot show."""
    if since and shape not in ("table", "json"):
        raise click.UsageError(
            f"--since works with the table and with --json, not with --format {shape}"
        )
    if deep and not since:
        raise click.UsageError("--deep needs --since")


def _required(profile: str | None) -> str:
    if not profile:
        raise click.UsageError(
            "--local needs --profile, the class of this machine; list the classes: appliance profile list"
        )
    return profile
