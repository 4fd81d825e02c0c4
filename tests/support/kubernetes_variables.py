"""Kubernetes variables, as several test modules use it."""

from typing import Any

from appliance.config.load import load_profile
from appliance.config.secrets import Secret
from appliance.models.facts import HostFacts
from appliance.models.site import Site
from appliance.stages.context import RoleContext
from appliance.stages.kubernetes import variables as kubernetes
from appliance.stages.kubernetes.variables import containerd

KEY = Secret("k" * 43 + "=")


def hosts(control: int) -> list[dict[str, Any]]:
    """So many control planes and two GPU hosts."""
    heads = [
        {"name": f"head-{n}", "roles": ["control"], "address": f"10.0.0.{n}"}
        for n in range(1, control + 1)
    ]
    gpus = [{"name": f"gpu-{n}", "roles": ["gpu"], "address": f"10.0.0.{10 + n}"} for n in (1, 2)]
    return heads + gpus


def site(control: int = 1, given: list[dict[str, Any]] | None = None, **cluster: Any) -> Site:
    """A site with a cluster."""
    return Site.model_validate(
        {
            "version": 1,
            "name": "acme",
            "networks": {"management": {"cidr": "10.0.0.0/24"}},
            "hosts": given or hosts(control),
            "kubernetes": {**({"address": "10.0.0.100"} if control > 1 else {}), **cluster},
        }
    )


def of(host: str, given: Site, *seen: HostFacts, key: Secret | None = KEY) -> dict[str, Any]:
    """Variables of both roles on a host."""
    secrets = {"kubernetes_encryption_key": key} if key else {}
    context = RoleContext(
        load_profile("hpc"), given, given.host(host), secrets, {f.host: f for f in seen}
    )
    return {**containerd.variables(context), **kubernetes.variables(context)}
