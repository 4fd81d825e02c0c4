"""Stage ``observe``: node exporters everywhere, Prometheus with alert rules on the first control host."""

from appliance.checks.check import ALL_ROLES
from appliance.config.roles.observe import variables
from appliance.stages.stage import Stage

STAGE = Stage(
    name="observe",
    title="Node exporters, Prometheus and alert rules",
    roles=ALL_ROLES,
    after=("base", "gpu"),
    learns_from=("gpu",),
    ansible_roles=("observe",),
    variables=variables,
    checks=(
        *("observe.exporter", "observe.server", "observe.targets"),
        *("observe.rules", "observe.alerts"),
    ),
    minutes=0.8,
)
