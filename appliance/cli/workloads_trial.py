"""appliance validate workloads"""

from pathlib import Path

import click

from appliance.acceptance.hello import HELLOS
from appliance.acceptance.hello_parts import Hello
from appliance.actions.sites.opening import Target
from appliance.actions.trials import workloads as action
from appliance.cli.trial_tables import show

NAME = "workloads"
TITLES = {f"workloads.{hello.key}": hello.title for hello in HELLOS}


def try_hellos(target: Target, kubeconfig: Path, only_clean: bool, as_json: bool) -> int:
    """Tests each add-on and shows a verdict. Exit: 0 all good, 1 one failed, 3 one is not assessed."""
    if only_clean:
        action.take_away(target, kubeconfig)
        return 0
    verdicts = action.prove(target, kubeconfig, _silent if as_json else _tell)
    return show(verdicts, TITLES, as_json, "{good} of {all} add-ons passed")


def _tell(hello: Hello) -> None:
    click.echo(f"  trying {hello.key} ...", err=True)


def _silent(hello: Hello) -> None:
    del hello
