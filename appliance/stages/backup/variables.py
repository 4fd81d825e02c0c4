"""Variables of role backup: the program, its target, and what this host saves."""

from base64 import b64encode
from urllib.parse import urlsplit

from appliance.backup.bundle import executable
from appliance.models.site import Host, Role, Site
from appliance.stages.backup.rules import SSH_KEY
from appliance.stages.context import RoleContext, Variables

STATE = "/var/lib/slurm/slurmctld"
"""StateSaveLocation of role slurm, and its database and user."""
DATABASE, USER = "slurm_acct_db", "slurm"
SSH_PORT = 22


def wanted(site: Site) -> bool:
    """Whether hosts of the site save anything: Slurm's accounting, or etcd of the site's own cluster."""
    return site.backup is not None and bool(site.slurm or has_own_cluster(site))


def has_own_cluster(site: Site) -> bool:
    """Whether control hosts have members of etcd."""
    return site.kubernetes is not None and site.kubernetes.external is None


def variables(context: RoleContext) -> Variables:
    """All variables of role backup."""
    site, given = context.site, context.site.backup
    if given is None or not wanted(site):
        return {"backup_state": "absent"}
    return {
        "backup_state": "present",
        "backup_program": context.once(_program),
        "backup_site": site.name,
        "backup_target": given.target,
        "backup_known_hosts": known_hosts(site),
        "backup_ssh_key": context.secrets[SSH_KEY] if given.target.startswith("ssh://") else "",
        "backup_recipient": given.recipient,
        "backup_every_minutes": given.minutes,
        "backup_keep_days": given.days,
        "backup_slurm": slurm_of(site, context.host),
        "backup_etcd": etcd_of(site),
    }


def slurm_of(site: Site, host: Host) -> dict[str, str]:
    """What the first control host saves of Slurm; empty elsewhere."""
    if site.slurm is None or host.name != site.with_role(Role.CONTROL)[0].name:
        return {}
    return {
        **{"cluster": site.slurm.cluster, "database": DATABASE},
        **{"state": STATE, "user": USER},
    }


def etcd_of(site: Site) -> str:
    """The folder of etcd's snapshots, "" without a cluster of the site's own."""
    return site.kubernetes.etcd_backup.at if site.kubernetes and has_own_cluster(site) else ""


def known_hosts(site: Site) -> str:
    """The line that pins the server of the target; "" for a folder."""
    given = site.backup
    if given is None or given.host_key is None:
        return ""
    found = urlsplit(given.target)
    port = found.port or SSH_PORT
    name = found.hostname if port == SSH_PORT else f"[{found.hostname}]:{port}"
    return f"{name} {given.host_key}"


def _program(context: RoleContext) -> str:
    del context
    return b64encode(executable()).decode()
