"""Stage slurm: jobs on GPUs, with accounting."""

import re
from collections.abc import Mapping

from appliance.models.facts import HostFacts
from appliance.models.site import Host, Role, Site
from appliance.stages.slurm import checks
from appliance.stages.slurm.checks import containers, idle, logins, submit, watch
from appliance.stages.slurm.restarts import RESTARTS
from appliance.stages.slurm.variables import variables
from appliance.stages.stage import Stage
from appliance.text import first_few

NAME = re.compile(r"[\w.-]{1,64}", re.ASCII)
STATE = "/var/lib/slurm/slurmctld"
"""StateSaveLocation of role slurm."""
WORKING = re.compile(r"alloc|mix|comp")
"""State words of a node with jobs."""


def wanted(site: Site) -> bool:
    """Return whether the site has Slurm."""
    return site.slurm is not None


def at_work(site: Site, facts: Mapping[str, HostFacts]) -> str:
    """Return hosts on which jobs run or end, by the controller's last state."""
    for host in site.with_role(Role.CONTROL):
        known = facts.get(host.name)
        if known and known.slurm and known.slurm.nodes is not None:
            busy = [n.name for n in known.slurm.nodes if WORKING.search(n.state.lower())]
            return f"jobs run on {first_few(busy)}: let them end, or scancel them" if busy else ""
    return ""


def renamed(site: Site, host: Host, facts: Mapping[str, HostFacts]) -> str:
    """Return why a changed cluster name is refused: slurmctld compares it with its state and exits (CLUSTER NAME MISMATCH)."""
    del host
    name = site.slurm_options.cluster
    for control in site.with_role(Role.CONTROL)[:1]:
        known = facts.get(control.name)
        old = known.slurm.cluster if known and known.slurm else ""
        if old and old != name and NAME.fullmatch(old):
            return (
                f'slurm.cluster is "{name}", but slurmctld has the state of "{old}" and would not start: set slurm.cluster to {old}, or end all '
                f"jobs and on {control.name}: systemctl stop slurmctld; rm {STATE}/clustername; accounting keeps the jobs and limits of {old} "
                f"under that name"
            )
    return ""


STAGE = Stage(
    name="slurm",
    title="Slurm: controller, accounting, GPU hosts",
    roles=frozenset({Role.CONTROL, Role.GPU, Role.LOGIN}),
    after=("base", "gpu", "storage"),
    facts_from=("gpu", "mig", "fabric"),
    ansible_roles=("slurm",),
    variables=variables,
    judges=(
        *checks.CHECKS,
        *containers.CHECKS,
        *watch.CHECKS,
        *logins.CHECKS,
        *submit.CHECKS,
        *idle.CHECKS,
    ),
    units=checks.UNITS,
    minutes=3.0,
    owns=(
        *("/etc/slurm/*", "!/etc/slurm/prolog.d", "!/etc/slurm/epilog.d", "!/etc/slurm/health.d"),
        "!/etc/slurm/plugstack.conf.d",
        *("/etc/slurm/prolog.d/*", "/etc/slurm/epilog.d/*", "/etc/slurm/health.d/*"),
        "/etc/slurm/plugstack.conf.d/*",
    ),
    wanted=wanted,
    removable=True,
    checks_removal=False,
    kept_by=at_work,
    blocked_by=renamed,
    restarts=RESTARTS,
)
