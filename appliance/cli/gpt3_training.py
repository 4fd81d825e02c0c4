"""appliance validate gpt3 --model NAME --nodes 1,2 --through slurm: a training that is begun now."""

from collections.abc import Sequence
from typing import Any

import click
from click.core import ParameterSource

from appliance.actions import gpt3_training as action
from appliance.actions.opening import Target
from appliance.benchmarks.gpt3.trial import Framework
from appliance.cli import options
from appliance.cli.gpt3_render import WAYS, numbers
from appliance.models.site import Owner
from appliance.stages.slurm.site import JobContainer

NAME = "gpt3"
OPTIONS = ("model", "nodes", "through", "framework")


def refuse_framework(model: str | None, *, not_now: bool) -> None:
    """Raises UsageError where --framework was given and nothing is trained (``not_now``) that it could be said of."""
    source = click.get_current_context().get_parameter_source("framework")
    if source is ParameterSource.COMMANDLINE and (not_now or model is None):
        raise click.UsageError("--framework goes with a model that is trained now: --model 126m")


def settings(
    target: Target,
    benchmarks: Sequence[str],
    model: str | None,
    nodes: str,
    through: str,
    container: JobContainer | None,
    framework: str,
) -> dict[str, dict[str, Any]]:
    """What the benchmark is given; {} where nothing was asked for. Raises UsageError or ConfigError before a host is asked."""
    source = click.get_current_context().get_parameter_source
    given = {name for name in OPTIONS if source(name) is ParameterSource.COMMANDLINE}
    if not given or NAME not in (benchmarks or (NAME,)):
        return {}
    if "through" in given and through not in WAYS:
        raise click.UsageError(
            f"a training goes through slurm or kubernetes, not {through}: give the command twice"
        )
    counts = numbers(nodes) if "nodes" in given else []
    way = Owner.KUBERNETES if "through" in given and through == WAYS[1] else Owner.SLURM
    found = action.asked(
        target, model, counts, options.quiet(), way, container, Framework(framework)
    )
    return {NAME: {"request": found}}
