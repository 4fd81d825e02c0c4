"""Stage ``mig``: GPUs divided as declared, now and after every boot, and on demand."""

from appliance.config.mig import demands
from appliance.config.roles.mig import variables
from appliance.models.site import Role, Site
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
    checks=("gpu.mig",),
    symptoms=("mig.on_demand",),
    minutes=0.3,
    wanted=_declared,
    leaves=True,
)
