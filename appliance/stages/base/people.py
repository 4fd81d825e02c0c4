"""Which hosts users may log in to at any time, and which only through their jobs."""

from appliance.models.site import Host, Role

OTHERS_LOG_IN = frozenset({Role.CONTROL, Role.LOGIN})
"""Roles of hosts on which users submit jobs; their ssh does not require a job."""
CRONTABS = ("/var/spool/cron/crontabs", "/var/spool/cron")
"""Folders with users' crontabs, named by user: Debian's, and the RHEL family's."""


def is_for_jobs(host: Host) -> bool:
    """Whether users work on this host only in jobs, so their processes must end with the jobs."""
    return Role.GPU in host.roles and OTHERS_LOG_IN.isdisjoint(host.roles)
