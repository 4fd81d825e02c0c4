"""What stage mig restarts."""

from appliance.stages.restart import Restart

RESTARTS = (
    Restart(
        "appliance-mig-demand",
        (
            *("/usr/local/sbin/appliance-mig", "/etc/appliance/mig-demand.json"),
            "/etc/systemd/system/appliance-mig-demand.service",
        ),
        frozenset({"mig_on_demand", "mig_program"}),
        on=lambda host, facts, variables: bool(variables["mig_on_demand"]),
    ),
    # Those that hold a GPU are in the way of its division, whoever installed them (appliance/mig/clients.py).
    Restart(
        "services that watch GPUs, such as nvidia-dcgm",
        maybe=frozenset({"mig_declared"}),
        by=("mig_layout",),
    ),
)
