"""appliance report"""

import errno
from pathlib import Path

import click

from appliance.actions import report as action
from appliance.actions.opening import runs_of
from appliance.cli import options, spoken
from appliance.cli.tables import print_tables
from appliance.errors import ApplianceError, ConfigError
from appliance.report.console import run_summary
from appliance.report.html import render


@click.command()
@options.target_options
@click.option("--run", metavar="ID", help="Which run; default: the last one.")
@click.option(
    "--format",
    "shape",
    type=click.Choice(["text", "json", "html"]),
    default="text",
    show_default=True,
)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="Write there instead of printing."
)
@click.option("--list", "listed", is_flag=True, help="List the runs that left a report.")
def report(
    inventory: Path | None,
    profile: str | None,
    run: str | None,
    shape: str,
    output: Path | None,
    listed: bool,
) -> int:
    """Show the last run, or write its report. As JSON, or as one self-contained HTML page.

    Exit: that of the run's verdict.
    """
    folder = runs_of(options.target(inventory, profile))
    if listed:
        for path in action.runs(folder):
            try:
                record = action.load(folder, path.name).record
            except ApplianceError as error:
                click.echo(f"{path.name}  {error.message}")
                continue
            click.echo(
                f"{path.name}  {record.verb:<9} {record.verdict.value:<10} {path}/report.html"
            )
        return 0
    kept = action.load(folder, run)
    if shape == "text" and output is None:
        console = options.console()
        run_summary(console, spoken.advice(kept.record), str(kept.folder / "report.html"))
        print_tables(console, kept.record.tables)
        return kept.record.verdict.exit_code
    record = spoken.advice_elsewhere(kept.record)
    text = render(record) if shape == "html" else record.model_dump_json(indent=1)
    if output:
        try:
            output.write_text(text, encoding="utf-8")
        except OSError as error:
            if error.errno == errno.ENOSPC:
                raise
            raise ConfigError(
                f"{output} cannot be written ({error.strerror})", "name a file in a folder you own"
            ) from error
        click.echo(
            f"{output}: {shape if shape != 'text' else 'json'} report of run {kept.record.run}"
        )
    else:
        click.echo(text)
    return kept.record.verdict.exit_code
