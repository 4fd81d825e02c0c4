"""appliance validate scheduler"""

from typing import Any

import click

from appliance.acceptance import PROMISES
from appliance.acceptance.promise import Promise
from appliance.actions.trials import scheduler as action
from appliance.cli.named import Named
from appliance.cli.trial_options import IN_CLUSTER, ON_SCHEDULER, trial_of
from appliance.cli.trial_tables import show

TITLES = {promise.id: promise.title for promise in PROMISES}


@click.command(cls=Named, params=[*IN_CLUSTER, *ON_SCHEDULER])
@click.option("--gpu-image", default="", help="Image with PyTorch, to test the memory limit.")
def promises(gpu_image: str, **given: Any) -> int:
    """Try each promise of the scheduler in the cluster. Removes what it creates.

    Exit: 0 all kept, 1 one is broken, 2 unusable input, 3 one is not assessed.
    """
    trial = trial_of(given, gpu_image)
    if trial.only_clean:
        action.take_away(trial.cluster, trial.runai)
        return 0
    told = _silent if trial.as_json else _show_progress
    verdicts = action.prove(trial.cluster, trial.settings, given["prometheus"], told, trial.runai)
    return show(verdicts, TITLES, trial.as_json, "{good} of {all} promises kept")


COMMAND = promises


def _show_progress(promise: Promise) -> None:
    click.echo(f"  trying {promise.id} ...", err=True)


def _silent(promise: Promise) -> None:
    del promise
