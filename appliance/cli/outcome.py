"""Shows measurements without a site's record: tables, findings and the verdict."""

from appliance.benchmarks.benchmark import Outcome
from appliance.cli import options
from appliance.cli.tables import print_tables
from appliance.models.result import Status, overall
from appliance.report.console import findings_list
from appliance.report.documents import Measurements, TrainingLogs
from appliance.report.findings import findings


def show(
    outcome: Outcome, as_json: bool, form: type[Measurements | TrainingLogs] = Measurements
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
    print_tables(console, outcome.tables)
    findings_list(console, findings(outcome.results))
    passed = sum(r.status is Status.PASS for r in outcome.results)
    console.print(f"  {verdict.value.upper()}: {passed} of {len(outcome.results)} checks passed")
    return verdict.exit_code
