"""What differs between the schedulers that the host takes work from: where the verdict is kept, and the site's own programs."""

from __future__ import annotations

from appliance.stages.kubernetes import ids as kubernetes_ids
from appliance.stages.slurm import ids as slurm_ids


class Place:
    """``scheduler``: its name. ``last``: file of the last verdict. ``metrics``: file for the node exporter.

    ``programs``: folder of the site's own programs; ``check``: id under which a failure of one is reported.
    """

    def __init__(self, scheduler: str, last: str, metrics: str, programs: str, check: str) -> None:
        self.scheduler, self.last, self.metrics = scheduler, last, metrics
        self.programs, self.check = programs, check


SLURM = Place(
    "Slurm",
    "/run/appliance/watch.json",
    "appliance_watch.prom",
    "/etc/slurm/health.d",
    slurm_ids.WATCH,
)
KUBERNETES = Place(
    "Kubernetes",
    "/run/appliance/node-watch.json",
    "appliance_node_watch.prom",
    "/etc/appliance/health.d",
    kubernetes_ids.WATCH,
)
