"""appliance validate fio hpcc --through kubernetes: on hosts of Kubernetes through its own scheduler."""

from pathlib import Path

import click
from click.core import ParameterSource

from appliance.actions.kubeconfig import find
from appliance.actions.opening import Target
from appliance.actions.through_pods import BENCHMARKS, Pods
from appliance.adapters.pods import Way
from appliance.cli import options
from appliance.cli.gpt3_render import IMAGE, QUEUE, refuse_without

__all__ = ["BENCHMARKS", "asked"]


def asked(
    benchmarks: tuple[str, ...], target: Target, kubeconfig: Path | None, queue: str, image: str
) -> Pods | None:
    """How pods are made; None where they were not asked for. Raises UsageError or ConfigError before a host is asked."""
    context = click.get_current_context()

    def given(name: str) -> bool:
        return context.get_parameter_source(name) is ParameterSource.COMMANDLINE

    if not set(benchmarks) & set(BENCHMARKS) or not given("through"):
        refuse_without("queue")
        return None
    words = " and ".join(BENCHMARKS)
    if context.params["through"] != "kubernetes":
        raise click.UsageError(
            f"--through is kubernetes with {words}; without it Slurm has its hosts, ssh the others"
        )
    if not set(benchmarks) <= set(BENCHMARKS):
        raise click.UsageError(f"--through kubernetes goes with {words} alone")
    if given("queue") and not QUEUE.fullmatch(queue):
        raise click.UsageError("--queue is the name of a queue of KAI")
    if not IMAGE.fullmatch(image):
        raise click.UsageError("--image is written as registry/name:tag")
    named = options.target(target.inventory, target.profile)
    return Pods(
        find(kubeconfig, named, options.quiet()), Way(image, queue if given("queue") else "")
    )
