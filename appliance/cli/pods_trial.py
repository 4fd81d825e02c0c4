"""appliance validate gpt3 nvbandwidth gemm nccl fio hpcc --through kubernetes: on hosts of Kubernetes through its own scheduler."""

from pathlib import Path

import click
from click.core import ParameterSource

from appliance.actions.kubeconfig import find
from appliance.actions.opening import Target
from appliance.actions.through_pods import BENCHMARKS, Pods, trial_image
from appliance.adapters.pods import Way
from appliance.cli import options
from appliance.cli.gpt3_render import IMAGE, QUEUE, WAYS, refuse_without
from appliance.cli.gpt3_render import OPTIONS as TRAINED

__all__ = ["BENCHMARKS", "asked", "named"]

SLURM, KUBERNETES = WAYS
WITHOUT_GPU = {
    SLURM: ("storage", "slurm", "gpt3", "gemm", "fio", "hpcc"),
    KUBERNETES: ("gpt3", "gemm", "fio", "hpcc"),
}
"""What measures something where there is no GPU."""
ON_GPUS, ON_PORTS = "need GPUs that compute", "needs a fabric that carries data"
OF_SLURM = "go through Slurm alone"
BY_NAME: dict[tuple[str, ...], str] = {
    ("alerts",): "sends a trial to everybody who is told of alerts",
    ("model-load",): "needs a Python with the loaders (--python)",
    ("serving",): "needs a server to ask (--endpoint)",
}
LEFT_OUT: dict[str, dict[tuple[str, ...], str]] = {
    SLURM: {
        ("dcgm", "nvbandwidth", "nccl", "burnin"): ON_GPUS,
        ("perftest",): ON_PORTS,
        **BY_NAME,
    },
    KUBERNETES: {
        ("nvbandwidth", "nccl"): ON_GPUS,
        ("slurm", "perftest", "burnin"): OF_SLURM,
        ("storage", "dcgm"): "reach hosts of Kubernetes over ssh",
        **BY_NAME,
    },
}
"""What --through alone leaves out, and why."""


def named(benchmarks: tuple[str, ...]) -> tuple[str, ...]:
    """Those that were named; where --through alone was given, those of that way that need no GPU."""
    way = _alone(benchmarks)
    return WITHOUT_GPU.get(way, ()) if way else benchmarks


def left_out(benchmarks: tuple[str, ...]) -> tuple[str, ...]:
    """Where ``named`` chose, one sentence for each reason that left others out."""
    return tuple(
        f"left out where none is named: {', '.join(names)} ({why})"
        for names, why in LEFT_OUT.get(_alone(benchmarks), {}).items()
    )


def _alone(benchmarks: tuple[str, ...]) -> str:
    """The way that --through names where it says by itself what is to be measured."""
    context = click.get_current_context()
    given = context.get_parameter_source("through") is ParameterSource.COMMANDLINE
    chosen = benchmarks or not given or context.params["render"] or context.params["self_test"]
    return "" if chosen else str(context.params["through"])


def asked(
    benchmarks: tuple[str, ...], target: Target, kubeconfig: Path | None, queue: str, image: str
) -> Pods | None:
    """How pods are made; None where they were not asked for. Raises UsageError or ConfigError before a host is asked."""
    context = click.get_current_context()

    def given(name: str) -> bool:
        return context.get_parameter_source(name) is ParameterSource.COMMANDLINE

    if context.params["from_logs"] or context.params["table"]:
        refuse_without(*TRAINED)
        return None
    through = context.params["through"]
    if not set(benchmarks) & set(BENCHMARKS) or not given("through") or through == SLURM:
        refuse_without("queue")
        return None
    words = ", ".join(BENCHMARKS)
    if through != KUBERNETES:
        raise click.UsageError(
            f"--through is slurm or kubernetes with {words}, not {through}: give the command twice"
        )
    if given("container_image") and not given("model"):
        raise click.UsageError(
            "--container-image goes with --through slurm, or with a model of GPUs: the small one runs what the hosts have"
        )
    if given("container_mounts"):
        raise click.UsageError("--container-mounts goes with --through slurm")
    if not set(benchmarks) <= set(BENCHMARKS):
        raise click.UsageError(f"--through kubernetes goes with {words} alone")
    if given("queue") and not QUEUE.fullmatch(queue):
        raise click.UsageError("--queue is the name of a queue of KAI")
    if image and not IMAGE.fullmatch(image):
        raise click.UsageError("--image is written as registry/name:tag")
    named = options.target(target.inventory, target.profile)
    way = Way(image or trial_image(named, options.quiet()), queue if given("queue") else "")
    return Pods(find(kubeconfig, named, options.quiet()), way)
