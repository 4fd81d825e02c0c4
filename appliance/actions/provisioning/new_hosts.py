"""Hosts that were never installed from here: a deployment may install those before it plans."""

from collections.abc import Iterable

from appliance.adapters.known_hosts import KnownHosts
from appliance.adapters.remote import known_hosts_name
from appliance.engine.session import Session


def never_installed(session: Session, hosts: Iterable[str] = ()) -> tuple[str, ...]:
    """Those of these hosts (none: of all) that have an image, a BMC, and no pinned key.

    Installing a host or trusting it pins its key. Contacts nothing.
    """
    if session.site.provision is None:
        return ()
    access, only = session.site.access, frozenset(hosts)
    pinned = KnownHosts(session.folder / access.known_hosts)
    return tuple(
        host.name
        for host in session.site.hosts
        if host.bmc
        and (not only or host.name in only)
        and not _is_pinned(pinned, known_hosts_name(str(host.address), access.port))
    )


def _is_pinned(pinned: KnownHosts, name: str) -> bool:
    """True also if the file cannot be read: that is reported when the host is contacted."""
    try:
        return bool(pinned.keys(name))
    except FileNotFoundError:
        return False
    except (OSError, ValueError):
        return True
