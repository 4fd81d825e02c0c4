"""appliance validate"""

import json
from pathlib import Path

import click

from appliance.actions import validate as action
from appliance.benchmarks import BENCHMARKS
from appliance.cli import options
from appliance.cli.tables import print_tables
from appliance.models.result import Status, overall
from appliance.report.console import findings_list, run_summary
from appliance.report.findings import findings


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
        return _from_logs(from_logs, profile or "hpc", as_json)
    watcher = options.observer(as_json, verbose) if not as_json else options.quiet()
    record, report = action.validate(options.target(inventory, profile), benchmarks, watcher)
    if as_json:
        click.echo(record.model_dump_json(indent=1))
        return record.verdict.exit_code
    console = options.console()
    print_tables(console, record.tables)
    run_summary(console, record, report)
    return record.verdict.exit_code


def _from_logs(folder: Path, profile: str, as_json: bool) -> int:
    outcome = action.read_logs(folder, profile)
    verdict = overall(outcome.results)
    if as_json:
        document = {
            "verdict": verdict.value,
            "results": [r.model_dump(mode="json") for r in outcome.results],
            "measurements": [m.model_dump(mode="json") for m in outcome.measurements],
            "tables": [t.model_dump(mode="json") for t in outcome.tables],
        }
        click.echo(json.dumps(document, indent=1))
        return verdict.exit_code
    console = options.console()
    print_tables(console, outcome.tables)
    findings_list(console, findings(outcome.results))
    passed = sum(r.status is Status.PASS for r in outcome.results)
    console.print(f"  {verdict.value.upper()}: {passed} of {len(outcome.results)} checks passed")
    return verdict.exit_code
