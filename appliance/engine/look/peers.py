"""Selects the peers that each host is checked against: a few, however large the site is."""

from appliance.models.site import Host, Owner, Role, Site

NFS, SLURMCTLD, SLURMD = 2049, 6817, 6818
OF_JOBS = 50001
"""One of the ports that srun, MPI and NCCL let the kernel choose (net.ipv4.ip_local_port_range); nothing has to listen there."""
MOST = 4


def peers_of(site: Site, name: str) -> list[dict[str, object]]:
    """Return the file server, the first control host and the next two hosts; the file server also checks itself.

    Two hosts check each host, so a fault of one host alone differs from a fault that all see.
    """
    names = [host.name for host in site.hosts]
    at = names.index(name)
    after = [site.hosts[(at + step) % len(names)] for step in (1, 2)]
    servers = site.with_role(Role.STORAGE)[:1] if site.storage.exports else ()
    control = site.with_role(Role.CONTROL)[:1]
    chosen = {host.name: host for host in (*after, *control, *servers)}
    others = [host for host in chosen.values() if host.name != name][:MOST]
    own = [host for host in servers if host.name == name]
    return [
        {
            "name": host.name,
            "address": str(host.address),
            "own": host.name == name,
            "ports": ports_of(site, host),
        }
        for host in (*others, *own)
    ]


def ports_of(site: Site, host: Host) -> list[int]:
    """Return the ports to try: the file server's, and those of Slurm's daemons and jobs if the hosts belong to Slurm."""
    found = [NFS] if site.storage.exports and host in site.with_role(Role.STORAGE)[:1] else []
    if site.gpu_hosts_of(Owner.SLURM):
        found += [SLURMCTLD] if host in site.with_role(Role.CONTROL)[:1] else []
        is_node = Role.GPU in host.roles and site.owner(host) is Owner.SLURM
        found += [SLURMD, OF_JOBS] if is_node else []
    return found
