"""appliance validate gpt3 --from-logs and --table: results without a run."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import click

from appliance.actions.benchmarks import gpt3_logs
from appliance.benchmarks.benchmark import Outcome
from appliance.cli import options, outcome
from appliance.cli.tables import print_tables
from appliance.models.run import RunRecord
from appliance.report.documents import PublishedTables, TrainingLogs


@dataclass(frozen=True)
class Reading:
    """The options given."""

    folder: Path | None
    table: bool
    model: str | None
    inventory: Path | None
    profile: str | None
    as_json: bool


def show(
    reading: Reading,
    benchmarks: tuple[str, ...],
    told: Callable[[RunRecord, str, bool], int],
) -> int:
    """Returns the exit code. With a site, the results of logs are added to its record and shown by ``told``."""
    flag = "--table" if reading.table else "--from-logs"
    if benchmarks != ("gpt3",):
        raise click.UsageError(f"{flag} needs: appliance validate gpt3")
    if reading.folder is None:
        return _papers(reading.as_json)
    if reading.table:
        raise click.UsageError("--table and --from-logs exclude each other")
    if reading.inventory is None:
        return _alone(reading, reading.folder)
    target = options.target(reading.inventory, reading.profile)
    record, report = gpt3_logs.keep_logs(target, reading.folder, options.quiet(), reading.model)
    return told(record, report, reading.as_json)


def _papers(as_json: bool) -> int:
    tables = gpt3_logs.published_tables()
    if as_json:
        options.echo_json(PublishedTables(tables=tables))
    else:
        print_tables(options.console(), tables)
    return 0


def _alone(reading: Reading, folder: Path) -> int:
    read = gpt3_logs.read_logs(folder, reading.profile or "hpc", reading.model)
    shown = Outcome(read.results, read.measurements, read.tables)
    return outcome.show(shown, reading.as_json, TrainingLogs)
