"""Variables of role ``storage``."""

import re
from ipaddress import IPv4Address, IPv4Network

from appliance.errors import ConfigError
from appliance.models.facts import HostFacts
from appliance.models.site import Host, Role, Site
from appliance.stages.context import RoleContext, Variables
from appliance.stages.storage.site import Export, NfsMount

NCONNECT_SINCE = (
    5,
    3,
)  # https://docs.kernel.org/admin-guide/nfs : several TCP connections per mount
NCONNECT = 8
STORAGE = "storage"
"""Name of the network for mounts."""


def variables(context: RoleContext) -> Variables:
    """Return this host's exports, mounts and scratch. Raises ConfigError for a mount of an unknown export."""
    facts = context.own
    serves = server_host(context.site) == context.host and bool(context.site.storage.exports)
    return {
        "storage_server": _server(facts) if serves else "none",
        "storage_exports": [_export(context.site, e) for e in context.site.storage.exports]
        if serves
        else [],
        **_homes(context.site, serves),
        "storage_client": client(facts) if context.site.storage.mounts else "none",
        "storage_mounts": [
            mount
            for wanted in context.site.storage.mounts
            if (mount := _mount(context, facts, wanted)) is not None
        ],
        **_scratch(context),
    }


def _homes(site: Site, serves: bool) -> Variables:
    """Return homes on an export of the site; those on external servers are created by their administrators."""
    base, mount = site.base, site.storage.mount_of(site.base.homes)
    paths = [export.path for export in site.storage.exports]
    if not serves or not base.users or mount is None or mount.export not in paths:
        return {"storage_homes_in": "", "storage_homes": []}
    return {
        "storage_homes_in": mount.export + base.homes.removeprefix(mount.at),
        "storage_homes": [{"name": user.name, "uid": user.uid} for user in base.users],
    }


def server_host(site: Site) -> Host | None:
    """Return the host that serves the site's own exports: its first storage host."""
    return next(iter(site.with_role(Role.STORAGE)), None)


def client(facts: HostFacts | None) -> str:
    """Return "kernel", or "libnfs" in a container whose machine's kernel cannot mount NFS."""
    if facts and facts.os.container and facts.nfs_client != "kernel":
        return "libnfs"
    return "kernel"


def source(site: Site, host: Host, wanted: NfsMount) -> tuple[str, str]:
    """Return server and path of a mount as ``host`` reaches it: in the storage network if both are in it."""
    if any(export.path == wanted.export for export in site.storage.exports):
        return str(_address(site, host)), wanted.export
    for external in site.storage.external:
        if external.path == wanted.export:
            return external.server, external.path
    raise ConfigError(
        f"storage.mounts: {wanted.at} wants {wanted.export}, which is not exported",
        "name a path of storage.exports or storage.external",
    )


def mount_unit(at: str) -> str:
    """Return the required name of the unit that mounts ``at`` (systemd-escape --path --suffix=mount)."""
    trimmed = re.sub("/+", "/", at).strip("/")
    escaped = "".join(
        "-" if c == "/" else c if _plain(c, i) else f"\\x{ord(c):02x}"
        for i, c in enumerate(trimmed)
    )
    return f"{escaped or '-'}.mount"


def _plain(character: str, position: int) -> bool:
    return (character.isalnum() or character in ":_.") and not (position == 0 and character == ".")


def _server(facts: HostFacts | None) -> str:
    """Return the server's variables; a container uses a server in user space instead of the kernel's."""
    return "ganesha" if facts and facts.os.container else "kernel"


def _address(site: Site, host: Host) -> IPv4Address:
    server = server_host(site)
    if server is None:
        raise ConfigError(
            "storage.exports: no host has the role storage", "give one host of the site that role"
        )
    return meeting(server, host)[0]


def meeting(server: Host, host: Host) -> tuple[IPv4Address, IPv4Address]:
    """Return the addresses of server and client of a mount: in the storage network if both have one."""
    if STORAGE in server.addresses and STORAGE in host.addresses:
        return server.addresses[STORAGE], host.addresses[STORAGE]
    return server.address, host.address


def _export(site: Site, export: Export) -> Variables:
    clients = export.clients or _default_clients(site)
    return {
        "path": export.path,
        "clients": [str(network) for network in clients],
        "read_only": export.read_only,
    }


def _default_clients(site: Site) -> tuple[IPv4Network, ...]:
    names = ("management", STORAGE)
    return tuple(site.networks[name].cidr for name in names if name in site.networks)


def _mount(context: RoleContext, facts: HostFacts | None, wanted: NfsMount) -> Variables | None:
    """Return the unit of a mount; None if there is nothing to mount.

    The server binds its own directory: an NFS mount of oneself can deadlock when memory is short.
    """
    server, path = source(context.site, context.host, wanted)
    own = any(export.path == path for export in context.site.storage.exports)
    if own and server_host(context.site) == context.host:
        return None if path == wanted.at else _unit(wanted.at, path, "none", "bind")
    if client(facts) == "libnfs":
        return None
    return _unit(wanted.at, f"{server}:{path}", "nfs", _options(facts))


def _unit(at: str, what: str, kind: str, options: str) -> Variables:
    return {"at": at, "unit": mount_unit(at), "what": what, "type": kind, "options": options}


def _options(facts: HostFacts | None) -> str:
    options = ["nfsvers=4.2", "proto=tcp", "hard", "noatime", "_netdev"]
    found = re.match(r"(\d+)\.(\d+)", facts.os.kernel) if facts else None
    if found and (int(found[1]), int(found[2])) >= NCONNECT_SINCE:
        options.append(f"nconnect={NCONNECT}")
    return ",".join(options)


def _scratch(context: RoleContext) -> Variables:
    """Return scratch of a GPU host: on devices of a machine, or in a directory of a container."""
    scratch = context.site.storage.scratch
    if scratch is None or Role.GPU not in context.host.roles:
        return {"storage_scratch": "", "storage_scratch_unit": "", "storage_scratch_devices": []}
    facts = context.own
    devices = () if facts and facts.os.container else scratch.devices
    return {
        "storage_scratch": scratch.at,
        "storage_scratch_unit": mount_unit(scratch.at),
        "storage_scratch_devices": list(devices),
    }
