"""Stage ``base``: people, ssh, time, kernel parameters, limits and the firewall of every host."""

from appliance.checks.check import ALL_ROLES
from appliance.stages.base.checks import CHECKS, UNITS
from appliance.stages.base.variables import variables
from appliance.stages.stage import Stage

STAGE = Stage(
    name="base",
    title="People, ssh, time, kernel parameters, limits and firewall",
    roles=ALL_ROLES,
    after=(),
    ansible_roles=("base",),
    variables=variables,
    judges=CHECKS,
    units=UNITS,
    minutes=1.0,
)
