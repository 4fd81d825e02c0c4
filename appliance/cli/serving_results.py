"""appliance validate serving-results: the result of another load generator, or the published tables."""

from pathlib import Path

import click

from appliance.actions.benchmarks import serving as action
from appliance.cli import options
from appliance.cli.files import InputFile
from appliance.cli.named import Named
from appliance.cli.outcome import DETAILS, papers, show


@click.command(cls=Named)
@click.argument("file", required=False, type=InputFile())
@click.option("--table", is_flag=True, help="Print the published tables, doubtful cells marked.")
@DETAILS
@options.format_option()
def results(file: Path | None, table: bool, details: bool, shape: str, as_json: bool) -> int:
    """Judge FILE, a result of vllm bench serve --save-result. Contacts no server, records nothing.

    Exit: that of the verdict: 0 good, 1 failed, 2 unusable input, 3 incomplete.
    """
    as_json = options.chosen_format(shape, as_json) == "json"
    if table == bool(file):
        raise click.UsageError("give FILE or --table")
    if file is None:
        return papers(action.published_tables(), as_json)
    return show(action.read_results(file), as_json, details=details)


COMMAND = results
