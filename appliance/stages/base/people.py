"""On which hosts users come and go as they like, and on which only their jobs bring them."""

from appliance.models.site import Host, Role

OTHERS_LOG_IN = frozenset({Role.CONTROL, Role.LOGIN})
"""Where people submit jobs: a host that is also one of these asks nobody for a job."""
CRONTABS = ("/var/spool/cron/crontabs", "/var/spool/cron")
"""Where cron keeps what users have it do, by the names of its owners: Debian's, the RHEL family's."""


def is_for_jobs(host: Host) -> bool:
    """Whether people come to this host for its GPUs alone: what they leave there must end with their jobs."""
    return Role.GPU in host.roles and OTHERS_LOG_IN.isdisjoint(host.roles)
