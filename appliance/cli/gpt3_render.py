"""appliance validate gpt3-render: the job files of the GPU trainings."""

import re
from dataclasses import dataclass
from pathlib import Path

import click

from appliance.actions.benchmarks import gpt3_jobs
from appliance.cli.named import Named

WAYS = ("slurm", "kubernetes")
QUEUE = re.compile(r"[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?")
IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@/#-]{0,254}")


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


@click.command(cls=Named)
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path, file_okay=False))
@click.option("--model", metavar="NAME", help="Only this model, such as 5b.")
@click.option("--nodes", default="1,2,4", show_default=True, help="Numbers of hosts.")
@click.option(
    "--through", default="slurm,kubernetes", show_default=True, help="Schedulers of the jobs."
)
@click.option("--queue", default="default", show_default=True, help="Queue of KAI.")
@click.option(
    "--container-image", default="", metavar="IMAGE", help="Container that trains (docs/gpt3.md)."
)
def render(
    folder: Path, model: str | None, nodes: str, through: str, queue: str, container_image: str
) -> int:
    """Write job files of GPT-3 trainings on GPUs to DIR. They are submitted by hand.

    Contacts no host, and needs no site. Exit: 0 written, 2 refused.
    """
    return write(folder, RenderRequest(model, nodes, through, container_image, queue))


COMMAND = render


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
    click.echo(f"then: appliance validate gpt3-logs {folder}")
    return 0
