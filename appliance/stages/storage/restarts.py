"""What stage storage restarts."""

from appliance.stages.restart import Restart

RESTARTS = (
    Restart(
        "nfs-server",
        ("/etc/nfs.conf.d/appliance.conf",),
        on=lambda host, facts, variables: variables["storage_server"] == "kernel",
    ),
    Restart(
        "nfs-ganesha",
        ("/etc/ganesha/ganesha.conf",),
        frozenset({"storage_exports"}),
        on=lambda host, facts, variables: variables["storage_server"] == "ganesha",
    ),
)
