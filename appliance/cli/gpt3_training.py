"""appliance validate gpt3 --model NAME --nodes 1,2 --through slurm: starts a training."""

from collections.abc import Sequence
from typing import Any

import click
from click.core import ParameterSource

from appliance.actions.benchmarks import gpt3_training as action
from appliance.actions.sites.opening import Target
from appliance.benchmarks.gpt3.trial import Framework
from appliance.cli import options
from appliance.cli.gpt3_render import WAYS, numbers
from appliance.models.site import Owner
from appliance.stages.slurm.site import JobContainer

NAME = "gpt3"
OPTIONS = ("model", "nodes", "through", "framework")


def refuse_framework(model: str | None, *, not_now: bool) -> None:
    """Raises UsageError if --framework was given and no training is started (``not_now``)."""
    source = click.get_current_context().get_parameter_source("framework")
    if source is ParameterSource.COMMANDLINE and (not_now or model is None):
        raise click.UsageError("--framework needs a model to train: --model 126m")


def settings(
    target: Target,
    benchmarks: Sequence[str],
    model: str | None,
    nodes: str,
    through: str,
    container: JobContainer | None,
    framework: str,
) -> dict[str, dict[str, Any]]:
    """Settings of the benchmark; {} if none were given. Raises UsageError or ConfigError before any host is contacted."""
    source = click.get_current_context().get_parameter_source
    given = {name for name in OPTIONS if source(name) is ParameterSource.COMMANDLINE}
    if not given or NAME not in (benchmarks or (NAME,)):
        return {}
    if "through" in given and through not in WAYS:
        raise click.UsageError(
            f"--through {through}: a training uses either slurm or kubernetes; run the command once for each"
        )
    counts = numbers(nodes) if "nodes" in given else []
    way = Owner.KUBERNETES if "through" in given and through == WAYS[1] else Owner.SLURM
    found = action.asked(
        target, model, counts, options.quiet(), way, container, Framework(framework)
    )
    return {NAME: {"request": found}}
