"""Hosts that were never installed from here: of those a deployment may give one its system before it plans."""

from collections.abc import Iterable

from appliance.adapters.known_hosts import KnownHosts
from appliance.adapters.remote import known_hosts_name
from appliance.engine.session import Session


def strangers(session: Session, hosts: Iterable[str] = ()) -> tuple[str, ...]:
    """Of these hosts (none: of all) those that an image and a controller are named for, and no key is pinned of.

    Whoever installed a host, or trusted it, pinned its key. Nobody is asked anything.
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
    """True also where the file cannot be read: that is told when the host is asked."""
    try:
        return bool(pinned.keys(name))
    except FileNotFoundError:
        return False
    except (OSError, ValueError):
        return True
