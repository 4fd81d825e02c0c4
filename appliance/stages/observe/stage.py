"""Stage ``observe``: node exporters everywhere, Prometheus with alert rules on the first control host."""

from appliance.checks.check import ALL_ROLES
from appliance.stages.observe.checks import CHECKS, UNITS
from appliance.stages.observe.restarts import RESTARTS
from appliance.stages.observe.variables import variables
from appliance.stages.stage import Stage

STAGE = Stage(
    name="observe",
    title="Node exporters, Prometheus and alert rules",
    roles=ALL_ROLES,
    after=("base", "gpu"),
    facts_from=("gpu", "kubernetes"),
    ansible_roles=("observe",),
    variables=variables,
    judges=CHECKS,
    units=UNITS,
    minutes=0.8,
    owns=("/etc/prometheus/rules/*",),
    restarts=RESTARTS,
)
