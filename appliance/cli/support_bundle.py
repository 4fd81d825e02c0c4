"""appliance support-bundle"""

import re
import shlex
from datetime import timedelta
from pathlib import Path

import click

from appliance.actions.monitoring import support_bundle as action
from appliance.cli import options
from appliance.models.result import Verdict
from appliance.report import documents
from appliance.text import plural

UNITS = {"m": "minutes", "h": "hours", "d": "days"}
MOST = timedelta(days=30)


def _window(context: click.Context, parameter: click.Parameter, value: str) -> timedelta:
    """The callback of ``--since``."""
    found = re.fullmatch(r"([1-9][0-9]{0,4})([mhd])", value)
    window = timedelta(**{UNITS[found[2]]: int(found[1])}) if found else None
    if window is None or window > MOST:
        raise click.BadParameter(f'"{value}": write 30m, 24h or 7d; 30d at most')
    return window


@click.command("support-bundle")
@options.target_options
@options.host_option
@click.option(
    "--since",
    default="24h",
    show_default=True,
    metavar="TIME",
    callback=_window,
    help="Age of the oldest logs: minutes, hours or days, such as 90m or 7d.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The archive. Default: support-SITE-RUN.tar.gz in the current folder.",
)
@options.json_option("Print JSON.")
def support_bundle(
    inventory: Path | None,
    profile: str | None,
    hosts: tuple[str, ...],
    since: timedelta,
    output: Path | None,
    as_json: bool,
) -> int:
    """Collect logs, configuration and facts into one archive.

    Also reports of vendors' programs. Changes nothing. Secrets are removed. index.md in the archive lists what is inside, what was left out, and why. At most 50 MB and 60 s a host.

    Exit: 0 all hosts were read, 2 unusable input, 3 a host was not read.
    """
    made = action.make(options.target(inventory, profile), options.quiet(), hosts, since, output)
    code = 0 if made.is_whole else Verdict.INCOMPLETE.exit_code
    if as_json:
        options.echo_json(
            documents.SupportBundle(
                site=made.site,
                file=str(made.path),
                size=made.size,
                verdict=made.verdict,
                hosts=tuple(
                    documents.BundledHost(
                        host=part.host,
                        files=len(part.files),
                        size=part.size,
                        seconds=round(part.seconds, 1),
                        missing=part.missing,
                        cause=part.cause,
                    )
                    for part in made.hosts
                ),
                missing=made.missing,
            )
        )
        return code
    click.echo(f"  bundle  {made.path}, {_megabytes(made.size)}")
    click.echo(f"  health  {made.verdict.value}")
    for part in made.hosts:
        if part.cause:
            click.echo(f"  {part.host}  not read: {part.cause}")
        else:
            left = f"; {plural(len(part.missing), 'part')} cut or left out" if part.missing else ""
            click.echo(
                f"  {part.host}  {plural(len(part.files), 'file')}, {_megabytes(part.size)}, {part.seconds:.1f} s{left}"
            )
    click.echo("  Secrets were removed. Read index.md in the archive before you send it.")
    # Not echoed as advice: this command takes no site.
    click.echo(f"  Judge it anywhere: appliance health --bundle {shlex.quote(made.path.name)}")
    return code


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB"
