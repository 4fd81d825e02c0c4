"""From models to the variables of role ``observe``."""

from appliance.config.roles.context import RoleContext, Variables
from appliance.models.site import Role, Site

JOB_PORT = 9100


def variables(context: RoleContext) -> Variables:
    """An exporter on every host; Prometheus on the first control host, with all hosts as its targets."""
    server = _is_server(context)
    return {
        "observe_address": str(context.host.address),
        "observe_server": server,
        "observe_instance": context.host.name,
        "observe_site": context.site.name,
        "observe_targets": _targets(context.site) if server else [],
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
