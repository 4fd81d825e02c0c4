"""From models to the variables of role ``observe``."""

from appliance.models.site import Role, Site
from appliance.stages.context import RoleContext, Variables

JOB_PORT = 9100
DCGM_PORT = 9400
DCGM_EXPORTER = "nvidia-dcgm-exporter.service"
"""As NVIDIA's package datacenter-gpu-manager-exporter calls it."""


def variables(context: RoleContext) -> Variables:
    """An exporter on every host; Prometheus on the first control host, with all hosts as its targets."""
    server = _is_server(context)
    return {
        "observe_address": str(context.host.address),
        "observe_server": server,
        "observe_instance": context.host.name,
        "observe_site": context.site.name,
        "observe_targets": _targets(context.site) if server else [],
        "observe_gpu_targets": _gpu_targets(context) if server else [],
        "observe_slurm": server,
        "observe_retention_days": context.site.observe.retention_days,
    }


def _is_server(context: RoleContext) -> bool:
    control = context.site.with_role(Role.CONTROL)
    return bool(control) and control[0].name == context.host.name


def _targets(site: Site) -> list[dict[str, object]]:
    return [
        {
            "instance": host.name,
            "address": f"{host.address}:{JOB_PORT}",
            "roles": ",".join(role.value for role in host.roles),
        }
        for host in site.hosts
    ]


def _gpu_targets(context: RoleContext) -> list[dict[str, object]]:
    """GPU hosts whose dcgm-exporter was seen running: one that was never installed is nothing to alarm about.

    Figures of simulated GPUs stay off the boards, where somebody would take them for measured ones.
    """
    return [
        {"instance": host.name, "address": f"{host.address}:{DCGM_PORT}"}
        for host in context.site.with_role(Role.GPU)
        if (facts := context.facts.get(host.name))
        and "gpu" not in facts.simulated
        and (unit := facts.units.get(DCGM_EXPORTER))
        and unit.active == "active"
    ]
