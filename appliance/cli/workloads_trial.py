"""appliance validate workloads"""

from typing import Any

import click

from appliance.acceptance.hello import HELLOS
from appliance.acceptance.hello_parts import Hello
from appliance.actions.trials import workloads as action
from appliance.cli.named import Named
from appliance.cli.trial_options import IN_CLUSTER, trial_of
from appliance.cli.trial_tables import show

TITLES = {f"workloads.{hello.key}": hello.title for hello in HELLOS}


@click.command(cls=Named, params=[*IN_CLUSTER])
def hellos(**given: Any) -> int:
    """Try each add-on of stage workloads in the cluster. Removes what it creates.

    Exit: 0 all good, 1 one failed, 2 unusable input, 3 one is not assessed.
    """
    trial = trial_of(given)
    if trial.only_clean:
        action.take_away(trial.target, trial.cluster)
        return 0
    verdicts = action.prove(
        trial.target, trial.cluster, _silent if trial.as_json else _show_progress
    )
    return show(verdicts, TITLES, trial.as_json, "{good} of {all} add-ons passed")


COMMAND = hellos


def _show_progress(hello: Hello) -> None:
    click.echo(f"  trying {hello.key} ...", err=True)


def _silent(hello: Hello) -> None:
    del hello
