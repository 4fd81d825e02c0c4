"""Stage ``mig``: GPUs divided as declared, now and after every boot."""

from appliance.config.roles.mig import variables
from appliance.models.site import Role, Site
from appliance.stages.stage import Stage


def _declared(site: Site) -> bool:
    return site.mig.declares


STAGE = Stage(
    name="mig",
    title="GPUs divided as declared (MIG)",
    roles=frozenset({Role.GPU}),
    after=("base", "gpu"),
    ansible_roles=("mig",),
    variables=variables,
    checks=("gpu.mig",),
    minutes=0.3,
    wanted=_declared,
    leaves=True,
)
