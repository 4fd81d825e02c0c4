"""appliance validate conformance"""

from pathlib import Path
from typing import Any

import click

from appliance.acceptance.conformance import PREFIX, REQUIREMENTS, Requirement
from appliance.actions.trials import conformance as action
from appliance.actions.trials import scheduler
from appliance.cli.named import Named
from appliance.cli.trial_options import IN_CLUSTER, ON_SCHEDULER, trial_of
from appliance.cli.trial_tables import show

TITLES = {f"{PREFIX}{r.id}": r.title for r in REQUIREMENTS}


@click.command(cls=Named, params=[*IN_CLUSTER, *ON_SCHEDULER])
@click.option(
    "--evidence",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Folder for the evidence. Default: conformance next to the kubeconfig.",
)
def requirements(evidence: Path | None, **given: Any) -> int:
    """Try each requirement of CNCF's AI conformance, and write the evidence. Removes what it creates.

    Exit: 0 nothing is missing, 1 a MUST is missing, 2 unusable input, 3 something is not shown.
    """
    trial = trial_of(given)
    if trial.only_clean:
        scheduler.take_away(trial.cluster)
        return 0
    at = evidence or trial.cluster.parent / action.FOLDER
    told = _silent if trial.as_json else _show_progress
    verdicts = action.prove(
        trial.target, trial.cluster, trial.settings, given["prometheus"], at, told
    )
    code = show(verdicts, TITLES, trial.as_json, "{good} of {all} requirements met")
    if not trial.as_json:
        click.echo(f"  evidence: {at}/PRODUCT.yaml")
    return code


COMMAND = requirements


def _show_progress(requirement: Requirement) -> None:
    click.echo(f"  trying {requirement.id} ...", err=True)


def _silent(requirement: Requirement) -> None:
    del requirement
