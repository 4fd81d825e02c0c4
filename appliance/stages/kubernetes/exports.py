"""Exports, with addresses at which hosts of a cluster reach them."""

from ipaddress import IPv4Address

from appliance.models.site import Site
from appliance.stages.kubernetes.variables import members
from appliance.stages.storage.variables import STORAGE, server_host


def readable(site: Site) -> dict[str, str]:
    """Return all exports by path, each with a server address that every host of the cluster reaches."""
    found = {e.path: _server(site) for e in site.storage.exports}
    return found | {e.path: e.server for e in site.storage.external}


def writable(site: Site) -> dict[str, str]:
    """Return the writable ones."""
    read_only = {e.path for e in site.storage.exports if e.read_only}
    return {path: server for path, server in readable(site).items() if path not in read_only}


def clients(site: Site) -> dict[str, IPv4Address]:
    """Return by host the source address with which it mounts an export of the site."""
    inside = _is_inside(site)
    return {h.name: h.addresses[STORAGE] if inside else h.address for h in members(site)}


def _server(site: Site) -> str:
    host = server_host(site)
    if host is None:
        return ""
    return str(host.addresses[STORAGE] if _is_inside(site) else host.address)


def _is_inside(site: Site) -> bool:
    """Return whether all hosts are in the storage network: one volume or StorageClass serves every host."""
    server = server_host(site)
    return server is not None and all(STORAGE in h.addresses for h in (server, *members(site)))
