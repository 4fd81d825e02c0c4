"""Variables of role mig: the program that divides GPUs, and what this host's are to be."""

from base64 import b64encode

from appliance.config.mig import document
from appliance.config.roles.context import RoleContext, Variables
from appliance.mig.bundle import executable


def variables(context: RoleContext) -> Variables:
    """All variables of role mig. Raises ConfigError for GPUs whose placements are not known."""
    return {
        "mig_program": b64encode(executable()).decode(),
        "mig_declared": document(context.profile, context.site, context.host),
    }
