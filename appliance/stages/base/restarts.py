"""What stage base restarts."""

from appliance.models.facts import HostFacts
from appliance.models.site import Host
from appliance.stages.context import Variables
from appliance.stages.restart import Restart

CHRONY = (
    *("/etc/chrony/chrony.conf", "/etc/default/chrony"),
    *("/etc/chrony.conf", "/etc/sysconfig/chronyd"),
    "/etc/systemd/system/chrony.service.d/appliance.conf",
    "/etc/systemd/system/chronyd.service.d/appliance.conf",
)
TIME = frozenset({"base_container", "base_ntp_clients", "base_ntp_own", "base_ntp_servers"})
SSHD = ("/etc/ssh/sshd_config.d/00-appliance.conf",)
ACCESS = frozenset({"base_account", "base_root_login", "base_strict"})
TOLD = frozenset({"base_banner", "base_users"})


def is_debian(host: Host, facts: HostFacts | None, variables: Variables) -> bool:
    """Return whether services have Debian's names; sshd.service and chronyd.service are aliases there."""
    return facts is None or facts.os.id in {"debian", "ubuntu"} or "debian" in facts.os.like


def is_other(host: Host, facts: HostFacts | None, variables: Variables) -> bool:
    """Return whether the host is of another family than Debian's."""
    return not is_debian(host, facts, variables)


RESTARTS = (
    Restart(
        "appliance-weekly.timer",
        (
            "/etc/systemd/system/appliance-weekly.timer",
            "/etc/systemd/system/appliance-weekly.service",
        ),
        frozenset({"base_strict"}),
    ),
    Restart("ssh", SSHD, ACCESS, TOLD, by=("live",), on=is_debian, before=True),
    Restart("sshd", SSHD, ACCESS, TOLD, by=("live",), on=is_other, before=True),
    Restart("chrony", CHRONY, TIME, on=is_debian, before=True),
    Restart("chronyd", CHRONY, TIME, on=is_other, before=True),
    Restart(
        "appliance-firewall",
        ("/etc/nftables.d/appliance.nft", "/etc/systemd/system/appliance-firewall.service"),
        frozenset({"base_bmcs", "base_firewall", "base_networks", "base_pods", "base_ssh_port"}),
    ),
    Restart(
        "rsyslog",
        ("/etc/rsyslog.d/90-appliance.conf", "/etc/ssl/appliance-logs.pem"),
        frozenset({"base_log_ca", "base_log_port", "base_log_server"}),
        on=lambda host, facts, variables: bool(variables["base_log_server"]),
        before=True,
    ),
    Restart(
        "systemd-modules-load",
        ("/etc/modules-load.d/appliance-base.conf",),
        frozenset({"base_kernel_modules"}),
        on=lambda host, facts, variables: not variables["base_container"],
        before=True,
    ),
)
