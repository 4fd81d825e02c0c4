"""Stage ``mig``: GPUs divided as declared, now and after every boot, and on demand."""

from appliance.models.site import Role, Site
from appliance.stages.mig import checks
from appliance.stages.mig.checks import demand
from appliance.stages.mig.layouts import demands
from appliance.stages.mig.restarts import RESTARTS
from appliance.stages.mig.variables import variables
from appliance.stages.stage import Stage


def _declared(site: Site) -> bool:
    return site.mig.declares or demands(site)


STAGE = Stage(
    name="mig",
    title="GPUs divided as declared (MIG)",
    roles=frozenset({Role.GPU}),
    after=("base", "gpu"),
    ansible_roles=("mig",),
    variables=variables,
    judges=(*checks.CHECKS, *demand.CHECKS),
    units=(*checks.UNITS, *demand.UNITS),
    minutes=0.3,
    wanted=_declared,
    removable=True,
    restarts=RESTARTS,
)
