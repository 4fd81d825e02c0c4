"""Kubernetes facts, as several test modules use it."""

from typing import Any

from appliance.models.facts import HostFacts
from appliance.stages.kubernetes.facts import Kubernetes
from tests.support.facts import facts_of
from tests.support.sites import site_of

SITE = site_of("head", "gpu-1", {"name": "gpu-2", "owner": "slurm"}, kubernetes={"version": "1.35"})


def facts(host: str, cluster: Kubernetes | None, **given: Any) -> HostFacts:
    return facts_of(host, kubernetes=cluster.model_dump() if cluster else None, **given)
