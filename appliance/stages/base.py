"""Stage ``base``: people, ssh, time, kernel parameters, limits and the firewall of every host."""

from appliance.checks.check import ALL_ROLES
from appliance.config.roles.base import variables
from appliance.stages.stage import Stage

STAGE = Stage(
    name="base",
    title="People, ssh, time, kernel parameters, limits and firewall",
    roles=ALL_ROLES,
    after=(),
    ansible_roles=("base",),
    variables=variables,
    checks=(
        "base.os",
        "base.clock",
        "base.sysctl",
        "base.units",
    ),
    minutes=1.0,
    symptoms=(
        "base.clock_spread",
        "base.failed_units",
        "base.disk",
        "base.memory",
        "base.cpu",
        "base.memory_size",
        "base.numa",
    ),
)
