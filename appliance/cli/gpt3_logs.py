"""appliance validate gpt3-logs: results of finished trainings, or the published tables."""

from pathlib import Path

import click

from appliance.actions.benchmarks import gpt3_logs
from appliance.benchmarks.benchmark import Outcome
from appliance.cli import options, outcome
from appliance.cli.named import Named
from appliance.report.documents import TrainingLogs


@click.command(cls=Named)
@click.argument(
    "folder", metavar="DIR", required=False, type=click.Path(path_type=Path, exists=True)
)
@options.target_options
@click.option("--model", metavar="NAME", help="Only this model, such as 5b.")
@click.option(
    "--table",
    is_flag=True,
    help="Print the published tables, with their misprints, and read no logs.",
)
@outcome.DETAILS
@options.format_option("junit")
def logs(
    folder: Path | None,
    inventory: Path | None,
    profile: str | None,
    model: str | None,
    table: bool,
    details: bool,
    shape: str,
    as_json: bool,
) -> int:
    """Judge the logs of finished NeMo or Megatron trainings in DIR. Contacts no host.

    Without --site, the logs are judged by --profile (default: hpc), and nothing is recorded. With --site, the result is
    added to the site's record, where it closes gates.

    Exit: that of the verdict: 0 good, 1 failed, 2 unusable input, 3 incomplete.
    """
    shape = options.chosen_format(shape, as_json)
    if table == bool(folder):
        raise click.UsageError("give DIR or --table")
    if inventory is None and shape == "junit":
        raise click.UsageError("--format junit needs --site: no record is made without one")
    if folder is None:
        return outcome.papers(gpt3_logs.published_tables(), shape == "json")
    if inventory is None:
        read = gpt3_logs.read_logs(folder, profile or "hpc", model)
        shown = Outcome(read.results, read.measurements, read.tables)
        return outcome.show(shown, shape == "json", TrainingLogs, details=details)
    target = options.target(inventory, profile)
    record, report = gpt3_logs.keep_logs(target, folder, options.quiet(), model)
    return outcome.show_record(record, report, shape, details=details)


COMMAND = logs
