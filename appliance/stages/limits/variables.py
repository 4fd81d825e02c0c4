"""Variables of role limits: the program, and the address of Prometheus."""

from base64 import b64encode

from appliance.limits.bundle import executable
from appliance.models.site import Role
from appliance.stages.context import RoleContext, Variables

PROMETHEUS_PORT = 9090


def variables(context: RoleContext) -> Variables:
    """Return all variables of role limits. Prometheus runs on the first control host."""
    first = context.site.with_role(Role.CONTROL)[0]
    options = context.site.scheduler
    return {
        "limits_program": context.once(_program),
        "limits_identity": context.host.name,
        "limits_prometheus": f"http://{first.address}:{PROMETHEUS_PORT}",
        "limits_dry_run": options is not None and options.limits == "report",
    }


def _program(context: RoleContext) -> str:
    del context
    return b64encode(executable()).decode()
