"""Options of the trials in a cluster: scheduler, workloads, conformance."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from appliance.acceptance.sandbox import Settings
from appliance.actions.benchmarks.through_pods import trial_image
from appliance.actions.kubernetes.kubeconfig import find
from appliance.actions.sites.opening import Target
from appliance.cli import options

DEFAULTS = Settings()
IN_CLUSTER = (
    *options.TARGET,
    options.KUBECONFIG,
    click.Option(
        ["--clean"], is_flag=True, help="Remove what an interrupted trial left in the cluster."
    ),
    *options.formats(),
    click.Option(["-v", "--verbose"], is_flag=True, hidden=True, expose_value=False),
)
ON_SCHEDULER = (
    click.Option(
        ["--image"],
        default="",
        metavar="IMAGE",
        help="Image of the pods, with sh and sleep. Default: the site's kubernetes.trial_image, or busybox 1.36.1.",
    ),
    click.Option(["--prometheus"], default="", metavar="URL", help="Address of Prometheus."),
    click.Option(
        ["--scheduler-name"],
        default=DEFAULTS.scheduler,
        show_default=True,
        help="The scheduler's name in pods.",
    ),
)


@dataclass(frozen=True)
class Trial:
    """What is tried where; ``cluster``: its kubeconfig."""

    target: Target
    cluster: Path
    settings: Settings
    only_clean: bool
    as_json: bool


def trial_of(given: Mapping[str, Any], gpu_image: str = "") -> Trial:
    """The trial of these options. Raises ConfigError without a cluster."""
    as_json = options.chosen_format(given["shape"], given["as_json"]) == "json"
    target = options.target(given["inventory"], given["profile"])
    image = given.get("image") or trial_image(target, options.quiet())
    scheduler = given.get("scheduler_name", DEFAULTS.scheduler)
    settings = Settings(scheduler=scheduler, image=image, gpu_image=gpu_image)
    cluster = find(given["kubeconfig"], target, options.quiet())
    return Trial(target, cluster, settings, given["clean"], as_json)
