"""Logins to GPU hosts that require a job, and why a host cannot require one."""

from appliance.models.facts import HostFacts
from appliance.models.site import Host, Site
from appliance.stages.base.people import is_for_jobs
from appliance.stages.context import RoleContext, Variables

WITHOUT_CGROUP_V2 = frozenset({"ubuntu-22.04"})
"""Systems that boot with cgroup v2, which their Slurm (21.08) does not support."""


def is_wanted(site: Site) -> bool:
    """Return the site's setting; by default, whether the site has users."""
    chosen = site.slurm_options.ssh_needs_job
    return bool(site.base.users) if chosen is None else chosen


concerns = is_for_jobs
"""Return whether users work on a host only in jobs."""


def unheld(facts: HostFacts) -> str:
    """Return why this host cannot limit jobs to their share by cgroup v2; empty if it can."""
    if facts.os.container:
        return "is a container, whose control groups are its machine's"
    if facts.os.cgroup != "v2":
        return f"has control groups {facts.os.cgroup or 'of an unknown version'}, not v2"
    if facts.os.release in WITHOUT_CGROUP_V2:
        return "has a Slurm that knows no cgroup v2"
    return ""


def hindrance(site: Site, host: Host, facts: HostFacts | None, held: bool) -> str:
    """Return why ssh to this host cannot require a job; ``held``: whether slurm.conf limits jobs on all hosts."""
    if facts and facts.os.release.startswith("rhel"):
        return f"{host.name} is of the RHEL family, whose PAM this program does not set up"
    own = unheld(facts) if facts else ""
    if own:
        return f"{host.name} {own}"
    return (
        ""
        if held
        else "the site's jobs are not held by control groups (slurm.constrain), and slurm.conf is one for all"
    )


def logins(context: RoleContext, held: bool) -> Variables:
    """Variables of role slurm for sshd."""
    site, host = context.site, context.host
    asked = is_wanted(site) and concerns(host)
    needs = asked and not hindrance(site, host, context.own, held)
    return {
        "slurm_ssh_needs_job": needs,
        "slurm_ssh_account": site.access.user if needs else "root",
    }
