"""appliance validate conformance"""

from pathlib import Path

import click

from appliance.acceptance.conformance import PREFIX, REQUIREMENTS, Requirement
from appliance.acceptance.sandbox import Settings
from appliance.actions.sites.opening import Target
from appliance.actions.trials import conformance as action
from appliance.actions.trials import scheduler
from appliance.cli.trial_tables import show

NAME = "conformance"
TITLES = {f"{PREFIX}{r.id}": r.title for r in REQUIREMENTS}


def try_requirements(
    target: Target,
    kubeconfig: Path,
    settings: Settings,
    prometheus: str,
    folder: Path | None,
    only_clean: bool,
    as_json: bool,
) -> int:
    """Tests each requirement and writes the folder. Exit: 0 nothing is missing, 1 a MUST is, 3 something is not shown."""
    if only_clean:
        scheduler.take_away(kubeconfig)
        return 0
    at = folder or kubeconfig.parent / action.FOLDER
    told = _silent if as_json else _tell
    verdicts = action.prove(target, kubeconfig, settings, prometheus, at, told)
    code = show(verdicts, TITLES, as_json, "{good} of {all} requirements met")
    if not as_json:
        click.echo(f"  evidence: {at}/PRODUCT.yaml")
    return code


def _tell(requirement: Requirement) -> None:
    click.echo(f"  trying {requirement.id} ...", err=True)


def _silent(requirement: Requirement) -> None:
    del requirement
