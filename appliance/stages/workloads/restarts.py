"""What stage workloads restarts."""

from appliance.stages.restart import Restart

RESTARTS = (
    Restart(
        "pods of Helm releases",
        maybe=frozenset({"workloads_releases"}),
        by=("helm_release",),
        on=lambda host, facts, variables: bool(variables["workloads_first"]),
    ),
)
