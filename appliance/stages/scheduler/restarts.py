"""What stage scheduler restarts."""

from appliance.stages.restart import Restart

RESTARTS = (
    Restart(
        "pods of Helm releases",
        maybe=frozenset({"scheduler_releases"}),
        by=("helm_release",),
        on=lambda host, facts, variables: bool(variables["scheduler_first"]),
    ),
)
