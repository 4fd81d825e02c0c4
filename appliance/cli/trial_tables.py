"""Shows the verdicts of a trial as they arrive."""

from collections.abc import Iterable, Iterator, Mapping

from appliance.cli import options, spoken
from appliance.models.result import CheckResult, Status, overall
from appliance.report.console import findings_list
from appliance.report.documents import Trial
from appliance.report.findings import findings
from appliance.report.symbols import STATUS


def show(
    verdicts: Iterable[CheckResult], titles: Mapping[str, str], as_json: bool, total: str
) -> int:
    """Shows each verdict and their sum (``total``, with {good} and {all}); returns the exit code."""
    results = list(verdicts if as_json else _shown(verdicts, titles))
    verdict = overall(results)
    if as_json:
        options.echo_json(Trial(verdict=verdict, results=tuple(results)))
        return verdict.exit_code
    console = options.console()
    findings_list(console, findings(spoken.advice(results)))
    good = sum(result.status is Status.PASS for result in results)
    said = total.format(good=good, all=len(results))
    console.print(f"  {verdict.value.upper()}: {said}")
    return verdict.exit_code


def _shown(verdicts: Iterable[CheckResult], titles: Mapping[str, str]) -> Iterator[CheckResult]:
    console = options.console()
    for result in verdicts:
        sign = STATUS[result.status]
        console.print(
            f"  {sign.mark} {result.id:<24} {titles[result.id]}: {sign.word}", style=sign.style
        )
        yield result
