"""The acceptance gates of GPT-3 training: a published model's throughput at the size of the site."""

from collections.abc import Iterator

from appliance.benchmarks.benchmark import Requirement, gpu_models, of_cluster
from appliance.benchmarks.gpt3.judge import THROUGHPUT
from appliance.benchmarks.gpt3.reference import Reference, load
from appliance.benchmarks.gpt3.throughput import of_size
from appliance.checks.check import View
from appliance.models.acceptance import Level
from appliance.models.gpu_counts import gpu_least, gpu_most
from appliance.models.site import Owner, Role

PLATFORM = {Owner.SLURM: "bare-metal", Owner.KUBERNETES: "kubernetes"}
STAGES = ("gpu", "mig", "fabric")
"""The stages on which throughput depends, in addition to the stage of the scheduler that runs it."""


def gates(view: View) -> tuple[Requirement, ...]:
    """One gate per published model if site or profile set a limit for the throughput, otherwise none."""
    bound = view.limit(THROUGHPUT)
    if bound is None:
        return ()
    reference = load()
    blocked = _unpublished(view, reference)
    hosts = [host.name for host in view.site.with_role(Role.GPU)]
    owners = [owner for owner in PLATFORM if view.site.gpu_hosts_of(owner)]
    return tuple(
        Requirement(
            id=f"gpt3.{model}",
            title=f"GPT-3 {gpt.title} training throughput",
            level=Level.TRAINING,
            benchmark="gpt3",
            part=model,
            check=THROUGHPUT,
            targets=of_cluster(hosts, *_targets(view, reference, model)),
            close=f"appliance validate gpt3-logs DIR --model {model}",
            limit=bound,
            by_run=False,
            unit="tokens/s",
            gpus=_gpus(view, reference),
            stages=(*STAGES, *(owner.value for owner in owners)),
            blocked=blocked,
            forever=bool(blocked),
        )
        for model, gpt in reference.models.items()
        if any(_targets(view, reference, model))
    )


def _targets(view: View, reference: Reference, model: str) -> Iterator[str]:
    """By scheduler, the largest published number of hosts that it has, in the notation of results."""
    for owner, platform in PLATFORM.items():
        hosts = len(view.site.gpu_hosts_of(owner))
        sizes = [
            cell.nodes
            for cell in reference.appliance.cells
            if (cell.model, cell.platform) == (model, platform) and cell.gate
        ]
        if fitting := [size for size in sizes if size <= hosts]:
            yield of_size(model, platform, max(fitting)).parts[0]


def _gpus(view: View, reference: Reference) -> frozenset[str]:
    return frozenset(reference.gpu(name) or name for name in gpu_models(view))


def _unpublished(view: View, reference: Reference) -> str:
    """The reason why no log of these hosts can be judged; "" if logs can be judged."""
    series = reference.appliance
    accepted = tuple(_gpus(view, reference)) or view.profile.hardware.gpu.models
    least, most = (of(view.profile, view.site) for of in (gpu_least, gpu_most))
    if least == most == series.gpus_per_node and reference.is_same_gpu(series.gpu, accepted):
        return ""
    count = f"{least}" if least == most else f"{least} to {most}"
    mine = f"{count} x {' or '.join(sorted(accepted))}"
    return f"no result is published for {mine} per host, so no log can be judged"
