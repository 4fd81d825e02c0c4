"""appliance validate gpt3 --model NAME --nodes 1,2 --through slurm: a training that is submitted now."""

from typing import Any

import click
from click.core import ParameterSource

from appliance.actions import gpt3_training as action
from appliance.actions.opening import Target
from appliance.cli import options
from appliance.cli.gpt3_render import numbers

NAME = "gpt3"
OPTIONS = ("model", "nodes", "through")


def settings(
    target: Target, model: str | None, nodes: str, through: str, *, contained: bool
) -> dict[str, dict[str, Any]]:
    """What the benchmark is given; {} where nothing was asked for. Raises UsageError or ConfigError before a host is asked."""
    source = click.get_current_context().get_parameter_source
    given = {name for name in OPTIONS if source(name) is ParameterSource.COMMANDLINE}
    if not given:
        return {}
    if "through" in given and through != "slurm":
        raise click.UsageError(
            f"a training is submitted through slurm alone, not {through}: --render DIR writes the jobs for kubernetes"
        )
    counts = numbers(nodes) if "nodes" in given else []
    found = action.asked(target, model, counts, options.quiet(), contained=contained)
    return {NAME: {"request": found}}
