"""Exports as the hosts of a cluster reach them."""

from appliance.models.site import Site
from appliance.stages.kubernetes.variables import members
from appliance.stages.storage.variables import server_host


def readable(site: Site) -> dict[str, str]:
    """All exports by path, each with its server as every host of the cluster reaches it."""
    found = {e.path: _server(site) for e in site.storage.exports}
    return found | {e.path: e.server for e in site.storage.external}


def writable(site: Site) -> dict[str, str]:
    """Those that may be written."""
    read_only = {e.path for e in site.storage.exports if e.read_only}
    return {path: server for path, server in readable(site).items() if path not in read_only}


def _server(site: Site) -> str:
    """In the storage network only where all have it: one StorageClass serves every host."""
    host = server_host(site)
    if host is None:
        return ""
    inside = all("storage" in h.addresses for h in (host, *members(site)))
    return str(host.addresses["storage"] if inside else host.address)
