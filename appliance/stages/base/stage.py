"""Stage ``base``: people, ssh, time, kernel parameters, limits and the firewall of every host."""

from collections.abc import Mapping

from appliance.checks.check import ALL_ROLES
from appliance.models.facts import HostFacts
from appliance.models.site import Host, Site
from appliance.stages.base.checks import CHECKS, UNITS
from appliance.stages.base.restarts import RESTARTS
from appliance.stages.base.variables import variables
from appliance.stages.stage import Stage

UNIT_FOLDERS = (
    *("/etc/systemd/system", "/etc/systemd/system.control"),
    *("/run/systemd/system", "/run/systemd/system.control"),
)
"""Where administrators and systemctl put drop-ins (systemd.unit(5))."""
SLICES = ("user-.slice", "user.slice", "system.slice")
"""Whose drop-ins limit all services, or all that users run."""


def numbers_taken(site: Site, host: Host, facts: Mapping[str, HostFacts]) -> str:
    """Other accounts of the host with uids or gids of the site: useradd would fail after a part of the hosts was changed."""
    del site
    access = facts[host.name].access if host.name in facts else None
    for one in access.taken if access else ():
        change = "usermod -u" if one.kind == "uid" else "groupmod -g"
        return (
            f"{one.kind} {one.number} of {one.wanted} belongs to {one.by} on {host.name}: give {one.wanted} another "
            f"{one.kind} in base.users, or on {host.name}: {change} NUMBER {one.by}"
        )
    return ""


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
    owns=(
        *("/etc/ssh/sshd_config.d/*", "/root/.ssh/rc", "/root/.ssh/environment", "/etc/ssh/sshrc"),
        "/etc/ssh/authorized_keys.d/*",
        *("/etc/sudoers.d/*", "/etc/nftables.d/*", "/etc/security/limits.d/*"),
        *("/etc/cron.d/*", "/etc/cron.hourly/*", "/etc/cron.daily/*", "/etc/cron.weekly/*"),
        *("/etc/cron.monthly/*", "/var/spool/cron/crontabs/*", "/var/spool/cron/*"),
        *("!/var/spool/cron/crontabs", "!/var/spool/cron/atjobs", "!/var/spool/cron/atspool"),
        *("/var/spool/cron/atjobs/*", "!/var/spool/cron/atjobs/.SEQ"),
        *("/var/spool/at/*", "!/var/spool/at/.SEQ", "!/var/spool/at/spool"),
        "/var/lib/systemd/linger/*",
        *("/etc/systemd/system.conf.d/*", "/etc/systemd/user.conf.d/*"),
        "/etc/systemd/system/service.d/*",
        *(f"{folder}/{name}.d/*" for folder in UNIT_FOLDERS for name in SLICES),
        *("/etc/chrony/conf.d/*", "/etc/chrony/sources.d/*"),
        *("/etc/ld.so.preload", "/etc/rc.local", "/etc/apt/trusted.gpg.d/*"),
        *("/etc/apt/sources.list.d/*.list", "/etc/apt/sources.list.d/*.sources"),
        *("!/etc/apt/sources.list.d/debian.sources", "!/etc/apt/sources.list.d/ubuntu.sources"),
        "/etc/yum.repos.d/*",
        *(
            "=/etc/ssh/sshd_config",
            "=/etc/systemd/system.conf",
            "=/etc/security/access.conf",
            "=/etc/sudoers",
            "=/etc/crontab",
            "=/etc/pam.d/*",
        ),
    ),
    blocked_by=numbers_taken,
    restarts=RESTARTS,
)
