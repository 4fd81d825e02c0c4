"""Variables of role mig: the program that divides GPUs, this host's layouts, and settings of MIG on demand."""

from base64 import b64encode

from appliance.mig.bundle import executable
from appliance.stages.context import RoleContext, Variables
from appliance.stages.mig.layouts import document, on_demand


def variables(context: RoleContext) -> Variables:
    """Return all variables of role mig. Raises ConfigError for GPUs whose placements are unknown."""
    return {
        "mig_program": context.once(_program),
        "mig_declared": document(context.profile, context.site, context.host),
        "mig_on_demand": on_demand(context.profile, context.site, context.host),
    }


def _program(context: RoleContext) -> str:
    del context
    return b64encode(executable()).decode()
