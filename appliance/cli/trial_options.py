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
from appliance.actions.trials.runai_projects import SCHEDULER, site_of
from appliance.cli import options
from appliance.config.load import LoadedSite

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
        default="",
        metavar="NAME",
        help="The scheduler's name in pods. Default: the site's, or kai-scheduler.",
    ),
)


@dataclass(frozen=True)
class Trial:
    """What is tried where; ``cluster``: its kubeconfig; ``runai``: the site whose scheduler is Run:ai."""

    target: Target
    cluster: Path
    settings: Settings
    only_clean: bool
    as_json: bool
    runai: LoadedSite | None = None


def trial_of(given: Mapping[str, Any], gpu_image: str = "") -> Trial:
    """The trial of these options. Raises ConfigError without a cluster."""
    as_json = options.chosen_format(given["shape"], given["as_json"]) == "json"
    target = options.target(given["inventory"], given["profile"])
    image = given.get("image") or trial_image(target, options.quiet())
    named = given.get("scheduler_name", "")
    runai = None if named else site_of(target, options.quiet())
    scheduler = named or (SCHEDULER if runai else DEFAULTS.scheduler)
    settings = Settings(scheduler=scheduler, image=image, gpu_image=gpu_image)
    cluster = find(given["kubeconfig"], target, options.quiet())
    return Trial(target, cluster, settings, given["clean"], as_json, runai)
