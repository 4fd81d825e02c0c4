"""appliance validate scheduler"""

from pathlib import Path

import click

from appliance.acceptance import PROMISES
from appliance.acceptance.promise import Promise
from appliance.acceptance.sandbox import Settings
from appliance.actions.trials import scheduler as action
from appliance.cli.trial_tables import show

NAME = "scheduler"
TITLES = {promise.id: promise.title for promise in PROMISES}


def try_promises(
    kubeconfig: Path, settings: Settings, prometheus: str, only_clean: bool, as_json: bool
) -> int:
    """Tests all promises and shows a verdict for each. Exit: 0 all kept, 1 one is broken, 3 one is not assessed."""
    if only_clean:
        action.take_away(kubeconfig)
        return 0
    verdicts = action.prove(kubeconfig, settings, prometheus, _tell if not as_json else _silent)
    return show(verdicts, TITLES, as_json, "{good} of {all} promises kept")


def _tell(promise: Promise) -> None:
    click.echo(f"  trying {promise.id} ...", err=True)


def _silent(promise: Promise) -> None:
    del promise
