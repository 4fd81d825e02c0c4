"""appliance validate gpt3 --model NAME --nodes 1,2 --through slurm: starts a training."""

from collections.abc import Mapping, Sequence
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


TRAINING = (
    click.Option(
        ["--model"], metavar="NAME", help="Model to train, such as 5b. Default: a small one."
    ),
    click.Option(["--nodes"], help="Numbers of hosts, such as 1,2,4. Default: 1, 2, 4 ... all."),
    click.Option(
        ["--framework"],
        type=click.Choice([one.value for one in Framework]),
        default=Framework.NEMO.value,
        show_default=True,
        help="What trains --model: NeMo in its container, or the hosts' own PyTorch.",
    ),
    click.Option(
        ["--container-image"],
        metavar="IMAGE",
        help="Train in this container, in the notation of Pyxis (docs/gpt3.md).",
    ),
    click.Option(
        ["--container-mounts"],
        metavar="SRC:DST,...",
        help="Paths of the hosts that are mounted in the container.",
    ),
)


def refuse_framework(model: str | None) -> None:
    """Raises UsageError if --framework was given without a model."""
    source = click.get_current_context().get_parameter_source("framework")
    if source is ParameterSource.COMMANDLINE and model is None:
        raise click.UsageError("--framework needs a model to train: --model 126m")


def settings(
    target: Target,
    benchmarks: Sequence[str],
    asked: Mapping[str, Any],
    container: JobContainer | None,
) -> dict[str, dict[str, Any]]:
    """Settings of the benchmark; {} if none were given. Raises UsageError or ConfigError before any host is contacted."""
    source = click.get_current_context().get_parameter_source
    given = {name for name in OPTIONS if source(name) is ParameterSource.COMMANDLINE}
    if not given or NAME not in (benchmarks or (NAME,)):
        return {}
    through = asked.get("through")
    if "through" in given and through not in WAYS:
        raise click.UsageError(
            f"--through {through}: a training uses either slurm or kubernetes; run the command once for each"
        )
    counts = numbers(asked["nodes"]) if "nodes" in given else []
    way = Owner.KUBERNETES if "through" in given and through == WAYS[1] else Owner.SLURM
    framework = Framework(asked.get("framework", Framework.NEMO.value))
    found = action.asked(
        target, asked.get("model"), counts, options.quiet(), way, container, framework
    )
    return {NAME: {"request": found}}
