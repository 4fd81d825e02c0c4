"""appliance validate NAME --through kubernetes: runs on hosts of Kubernetes, placed by its scheduler."""

from collections.abc import Mapping
from typing import Any

import click
from click.core import ParameterSource

from appliance.actions.benchmarks.through_pods import BENCHMARKS, Pods, trial_image
from appliance.actions.kubernetes.kubeconfig import find
from appliance.actions.sites.opening import Target
from appliance.adapters.pods import PodTemplate
from appliance.cli import options
from appliance.cli.gpt3_render import IMAGE, QUEUE, WAYS

__all__ = ["BENCHMARKS", "asked", "named_benchmarks"]

SLURM, KUBERNETES = WAYS
WITHOUT_GPU = {
    SLURM: ("storage", "slurm", "gpt3", "gemm", "fio", "hpcc"),
    KUBERNETES: ("gpt3", "gemm", "fio", "hpcc"),
}
"""Benchmarks that measure something without a GPU."""
ON_GPUS, ON_PORTS = "need GPUs", "needs a physical fabric"
BY_NAME: dict[tuple[str, ...], str] = {
    ("alerts",): "sends a test alert to every receiver",
    ("model-load",): "needs a Python interpreter with the loaders (--python)",
    ("serving",): "needs a server to measure (--endpoint)",
}
_THROUGH = click.Option(["--through"], metavar="WAY", help="Run through slurm or kubernetes.")
_QUEUE = click.Option(
    ["--queue"],
    default="default",
    show_default=True,
    help="With --through kubernetes: the queue of KAI.",
)
_IMAGE: dict[str, Any] = {
    "default": "",
    "metavar": "IMAGE",
    "help": "With --through kubernetes: image of the pods, with sh and chroot. Default: the site's kubernetes.trial_image, or busybox 1.36.1.",
}
OPTIONS = (_THROUGH, _QUEUE, click.Option(["--image"], **_IMAGE), options.KUBECONFIG)
OF_GPT3 = (_THROUGH, _QUEUE, click.Option(["--image"], hidden=True, **_IMAGE), options.KUBECONFIG)
"""The same; only the small model runs in pods of --image."""
LEFT_OUT: dict[str, dict[tuple[str, ...], str]] = {
    SLURM: {
        ("dcgm", "nvbandwidth", "nccl", "burnin"): ON_GPUS,
        ("perftest",): ON_PORTS,
        ("queue",): "goes through Kubernetes alone",
        **BY_NAME,
    },
    KUBERNETES: {
        ("dcgm", "nvbandwidth", "nccl", "burnin"): ON_GPUS,
        ("perftest",): ON_PORTS,
        ("slurm",): "measures Slurm itself",
        ("storage",): "needs SSH access to hosts of Kubernetes",
        ("queue",): "runs without --through, in the site's own projects",
        **BY_NAME,
    },
}
"""The benchmarks that --through alone skips, and why."""


def named_benchmarks(benchmarks: tuple[str, ...]) -> tuple[str, ...]:
    """The given benchmarks; for --through alone, those of that scheduler that need no GPU."""
    way = _alone(benchmarks)
    return WITHOUT_GPU.get(way, ()) if way else benchmarks


def left_out(benchmarks: tuple[str, ...]) -> tuple[str, ...]:
    """If ``named`` selected, one sentence per reason for skipping others."""
    return tuple(
        f"skipped because no benchmark was named: {', '.join(names)} ({why})"
        for names, why in LEFT_OUT.get(_alone(benchmarks), {}).items()
    )


def _alone(benchmarks: tuple[str, ...]) -> str:
    """The scheduler of --through, if that option alone selects the benchmarks."""
    context = click.get_current_context()
    given = context.get_parameter_source("through") is ParameterSource.COMMANDLINE
    return "" if benchmarks or not given else str(context.params["through"])


def asked(
    benchmarks: tuple[str, ...], target: Target, options_given: Mapping[str, Any]
) -> Pods | None:
    """Settings of the pods; None if not requested. Raises UsageError or ConfigError before any host is contacted."""
    context = click.get_current_context()

    def given(name: str) -> bool:
        return context.get_parameter_source(name) is ParameterSource.COMMANDLINE

    through = options_given.get("through")
    if not set(benchmarks) & set(BENCHMARKS) or not given("through") or through == SLURM:
        if given("queue"):
            raise click.UsageError("--queue needs --through kubernetes")
        return None
    queue, image = options_given["queue"], options_given["image"]
    words = ", ".join(BENCHMARKS)
    if through != KUBERNETES:
        raise click.UsageError(
            f"--through {through}: with {words} write slurm or kubernetes; run the command once for each"
        )
    if given("container_image") and not given("model"):
        raise click.UsageError(
            "--container-image needs --through slurm, or a model for GPUs: the small model uses the software of the hosts"
        )
    if given("container_mounts"):
        raise click.UsageError("--container-mounts needs --through slurm")
    if not set(benchmarks) <= set(BENCHMARKS):
        raise click.UsageError(f"--through kubernetes supports only {words}")
    if given("queue") and not QUEUE.fullmatch(queue):
        raise click.UsageError("--queue is not a valid name of a KAI queue")
    if image and not IMAGE.fullmatch(image):
        raise click.UsageError("--image: write it as registry/name:tag")
    named = options.target(target.inventory, target.profile)
    way = PodTemplate(image or trial_image(named, options.quiet()), queue if given("queue") else "")
    return Pods(find(options_given["kubeconfig"], named, options.quiet()), way)
