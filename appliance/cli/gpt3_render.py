"""appliance validate gpt3 --render: the job files of the GPU trainings."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import click
from click.core import ParameterSource

from appliance.actions.benchmarks import gpt3_jobs

F = TypeVar("F", bound=Callable[..., object])
WAYS = ("slurm", "kubernetes")
QUEUE = re.compile(r"[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?")
IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@/#-]{0,254}")


OPTIONS = ("nodes", "through", "queue")
"""Options that select what is rendered or trained."""


def render_options(command: F) -> F:
    """--render and its options."""
    for option in (
        click.option(
            "--queue",
            default="default",
            show_default=True,
            help="Queue of KAI; for --render and --through kubernetes.",
        ),
        click.option(
            "--through",
            default="slurm,kubernetes",
            show_default=True,
            help="Scheduler for gpt3, nvbandwidth, gemm, nccl, fio and hpcc. If only this option is given: all benchmarks that need no GPU.",
        ),
        click.option(
            "--nodes", default="1,2,4", show_default=True, help="gpt3 only: numbers of hosts."
        ),
        click.option(
            "--render",
            type=click.Path(path_type=Path, file_okay=False),
            metavar="DIR",
            help="gpt3 only: write job files for GPU trainings to this folder, to be submitted by hand.",
        ),
    ):
        command = option(command)
    return command


def refuse_without(*names: str) -> None:
    """Refuses an option of --render that would be ignored. Raises UsageError."""
    given = click.get_current_context().get_parameter_source
    for option in names:
        if given(option) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--{option} needs --render")


def numbers(text: str) -> list[int]:
    """Numbers of hosts, such as 1,2,4. Raises UsageError."""
    counts = [int(n) for n in text.split(",") if re.fullmatch(r"[1-9]\d{0,3}", n)]
    if len(counts) != len(text.split(",")):
        raise click.UsageError(f"--nodes {text}: write numbers such as 1,2,4")
    return counts


@dataclass(frozen=True)
class RenderRequest:
    """The options as typed; lists are separated by commas."""

    model: str | None
    nodes: str
    through: str
    image: str
    queue: str


def write(folder: Path, asked: RenderRequest) -> int:
    """Writes the files and prints the next step. Raises UsageError before anything is written."""
    counts = numbers(asked.nodes)
    ways = asked.through.split(",")
    if not set(ways) <= set(WAYS):
        raise click.UsageError(
            f"--through {asked.through}: write slurm, kubernetes, or slurm,kubernetes"
        )
    if not QUEUE.fullmatch(asked.queue):
        raise click.UsageError("--queue is not a valid name of a KAI queue")
    if asked.image and not IMAGE.fullmatch(asked.image):
        raise click.UsageError(
            "--container-image: write it as nvcr.io/nvidia/nemo:24.03.01.framework"
        )
    wanted = gpt3_jobs.JobFileRequest(
        asked.model, counts, ways, asked.image.replace("#", "/"), asked.queue
    )
    for path in gpt3_jobs.write(folder, wanted):
        click.echo(path)
    click.echo(
        f"tokens are synthetic; save the log of a TrainJob: kubectl logs -f POD > {folder}/MODEL/kubernetes/Nn.log"
    )
    click.echo(f"then: appliance validate gpt3 --from-logs {folder}")
    return 0
