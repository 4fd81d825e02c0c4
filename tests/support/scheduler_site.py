"""Scheduler site, as several test modules use it."""

from typing import Any

from appliance.models.site import Site
from tests.support.sites import site_of


def site(**scheduler_options: Any) -> Site:
    """Two GPU hosts of Kubernetes and one of Slurm."""
    theirs = {"name": "gpu-3", "owner": "slurm"}
    server = {"name": "head", "roles": ["control", "storage"]}
    shared = {"exports": [{"path": "/srv/shared"}]}
    return site_of(
        server, "gpu-1", "gpu-2", theirs, kubernetes={}, scheduler=scheduler_options, storage=shared
    )
