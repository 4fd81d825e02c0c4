"""What stage fabric restarts."""

from appliance.stages.restart import Restart

RESTARTS = (
    Restart(
        "systemd-modules-load",
        ("/etc/modules-load.d/appliance-fabric.conf",),
        frozenset({"fabric_kernel_modules"}),
        on=lambda host, facts, variables: bool(variables["fabric_kernel_modules"]),
        before=True,
    ),
    Restart(
        "opensm",
        (
            *("/etc/opensm/opensm.conf", "/etc/default/opensm", "/etc/opensm/partitions.conf"),
            *("/etc/rdma/opensm.conf", "/etc/sysconfig/opensm", "/etc/rdma/partitions.conf"),
        ),
        frozenset({"fabric_opensm_guids", "fabric_opensm_priority", "fabric_partitions"}),
    ),
    Restart(
        "appliance-ipoib",
        ("/usr/local/sbin/appliance-ipoib", "/etc/systemd/system/appliance-ipoib.service"),
        frozenset({"fabric_ipoib"}),
        on=lambda host, facts, variables: bool(variables["fabric_ipoib"]),
    ),
    Restart(
        "appliance-roce",
        ("/usr/local/sbin/appliance-roce", "/etc/systemd/system/appliance-roce.service"),
        frozenset({"fabric_roce"}),
        on=lambda host, facts, variables: bool(variables["fabric_roce"]),
    ),
)
