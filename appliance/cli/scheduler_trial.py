"""appliance validate scheduler"""

import json
from collections.abc import Iterable
from pathlib import Path

import click

from appliance.acceptance import PROMISES
from appliance.acceptance.ground import Settings
from appliance.acceptance.promise import Promise
from appliance.actions import scheduler as action
from appliance.cli import options
from appliance.models.result import CheckResult, Status, overall
from appliance.report.console import findings_list
from appliance.report.findings import findings
from appliance.report.symbols import STATUS

NAME = "scheduler"
TITLES = {promise.id: promise.title for promise in PROMISES}


def try_promises(
    kubeconfig: Path, settings: Settings, prometheus: str, only_clean: bool, as_json: bool
) -> int:
    """Tries all promises and shows a verdict for each. Exit: 0 all kept, 1 one is broken, 3 one is not assessed."""
    if only_clean:
        action.take_away(kubeconfig)
        return 0
    verdicts = action.prove(kubeconfig, settings, prometheus, _tell if not as_json else _silent)
    results = list(verdicts if as_json else _shown(verdicts))
    verdict = overall(results)
    if as_json:
        listed = [result.model_dump(mode="json") for result in results]
        click.echo(json.dumps({"verdict": verdict.value, "results": listed}, indent=1))
        return verdict.exit_code
    console = options.console()
    findings_list(console, findings(results))
    kept = sum(result.status is Status.PASS for result in results)
    console.print(f"  {verdict.value.upper()}: {kept} of {len(results)} promises shown to be kept")
    return verdict.exit_code


def _tell(promise: Promise) -> None:
    click.echo(f"  trying {promise.id} ...", err=True)


def _silent(promise: Promise) -> None:
    del promise


def _shown(verdicts: Iterable[CheckResult]) -> Iterable[CheckResult]:
    console = options.console()
    for result in verdicts:
        sign = STATUS[result.status]
        console.print(
            f"  {sign.mark} {result.id:<24} {TITLES[result.id]}: {sign.word}", style=sign.style
        )
        yield result
