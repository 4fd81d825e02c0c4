"""Shows measurements without a run: the verdict, findings, and tables on request."""

from collections.abc import Iterable

import click

from appliance.benchmarks.benchmark import Outcome
from appliance.cli import options, spoken
from appliance.cli.tables import print_tables
from appliance.models.result import Status, overall
from appliance.models.run import RunRecord, Table
from appliance.report import junit
from appliance.report.console import findings_list, run_summary
from appliance.report.documents import Measurements, PublishedTables, TrainingLogs
from appliance.report.findings import findings

DETAILS = click.option("--details", is_flag=True, help="Also print the tables of the measurements.")


def show(
    outcome: Outcome,
    as_json: bool,
    form: type[Measurements | TrainingLogs] = Measurements,
    *,
    details: bool = True,
) -> int:
    """Prints the outcome; ``form``: its document for --json. Returns the exit code of its verdict."""
    verdict = overall(outcome.results)
    if as_json:
        document = form(
            verdict=verdict,
            results=outcome.results,
            measurements=outcome.measurements,
            tables=outcome.tables,
        )
        options.echo_json(document)
        return verdict.exit_code
    console = options.console()
    passed = sum(r.status is Status.PASS for r in outcome.results)
    console.print(f"  {verdict.value.upper()}: {passed} of {len(outcome.results)} checks passed")
    findings_list(console, findings(outcome.results))
    _tables(outcome.tables, details=details)
    return verdict.exit_code


def show_record(record: RunRecord, report: str, shape: str, *, details: bool) -> int:
    """Prints the record of a run that was not watched, the verdict first. Returns its exit code."""
    if shape == "table":
        run_summary(options.console(), spoken.advice(record), report, first=True)
        _tables(record.tables, details=details)
        return record.verdict.exit_code
    return print_record(record, shape)


def print_record(record: RunRecord, shape: str) -> int:
    """Prints the record as JSON or JUnit. Returns its exit code."""
    if shape == "json":
        options.echo_json(record)
    else:
        told = spoken.advice_elsewhere(record)
        text = junit.render_health(told.site, told.results, told.verdict, told.simulated)
        click.echo(text, nl=False)
    return record.verdict.exit_code


def papers(tables: tuple[Table, ...], as_json: bool) -> int:
    """Prints published tables."""
    if as_json:
        options.echo_json(PublishedTables(tables=tables))
    else:
        print_tables(options.console(), tables)
    return 0


def _tables(tables: Iterable[Table], *, details: bool) -> None:
    shown = tuple(tables)
    if details:
        print_tables(options.console(), shown)
    elif shown:
        click.echo(f"  Tables: {len(shown)} (--details prints them)")
