"""Exports as the hosts of a cluster reach them."""

from ipaddress import IPv4Address

from appliance.models.site import Site
from appliance.stages.kubernetes.variables import members
from appliance.stages.storage.variables import STORAGE, server_host


def readable(site: Site) -> dict[str, str]:
    """All exports by path, each with its server as every host of the cluster reaches it."""
    found = {e.path: _server(site) for e in site.storage.exports}
    return found | {e.path: e.server for e in site.storage.external}


def writable(site: Site) -> dict[str, str]:
    """Those that may be written."""
    read_only = {e.path for e in site.storage.exports if e.read_only}
    return {path: server for path, server in readable(site).items() if path not in read_only}


def clients(site: Site) -> dict[str, IPv4Address]:
    """Where each host of the cluster, by its name, comes from when it mounts an export of the site's own."""
    inside = _is_inside(site)
    return {h.name: h.addresses[STORAGE] if inside else h.address for h in members(site)}


def _server(site: Site) -> str:
    host = server_host(site)
    if host is None:
        return ""
    return str(host.addresses[STORAGE] if _is_inside(site) else host.address)


def _is_inside(site: Site) -> bool:
    """In the storage network only where all have it: one volume or StorageClass serves every host."""
    server = server_host(site)
    return server is not None and all(STORAGE in h.addresses for h in (server, *members(site)))
