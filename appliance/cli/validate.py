"""appliance validate"""

from pathlib import Path

import click
from rich.console import Console

from appliance.actions import validate as action
from appliance.benchmarks import BENCHMARKS
from appliance.cli import options
from appliance.cli.tables import print_tables
from appliance.report.console import run_summary


@click.command()
@click.argument("benchmarks", nargs=-1, type=click.Choice([b.name for b in BENCHMARKS]))
@options.target_options
@click.option(
    "--from-logs",
    type=click.Path(path_type=Path, exists=True),
    metavar="DIR",
    help="gpt3 only: read logs of finished NeMo or Megatron runs instead of running anything.",
)
@click.option("-v", "--verbose", is_flag=True, help="Every step as a line.")
@options.json_option("The record of the run as one JSON object.")
def validate(
    benchmarks: tuple[str, ...],
    inventory: Path | None,
    profile: str | None,
    from_logs: Path | None,
    verbose: bool,
    as_json: bool,
) -> int:
    """Run the cluster's benchmarks and judge what they measure. Changes no configuration.

    Exit: 0 good, 1 failed, 2 unusable input, 3 incomplete.
    """
    if from_logs:
        if benchmarks != ("gpt3",):
            raise click.UsageError("--from-logs goes with: appliance validate gpt3")
        return _read_logs(from_logs, profile or "hpc", as_json)
    watcher = options.observer(as_json, verbose) if not as_json else options.quiet()
    record, report = action.validate(options.target(inventory, profile), benchmarks, watcher)
    if as_json:
        click.echo(record.model_dump_json(indent=1))
        return record.verdict.exit_code
    console = Console()
    print_tables(console, record.tables)
    run_summary(console, record, report)
    return record.verdict.exit_code
