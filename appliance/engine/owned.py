"""Places the stages own on a host, and whose keys may open root's account there."""

from collections.abc import Iterable
from functools import cache
from pathlib import Path

from appliance.adapters.remote import known_hosts_name
from appliance.engine.session import Session
from appliance.errors import ConnectionFailed
from appliance.models.site import Site
from appliance.stages.base.people import is_for_jobs
from appliance.stages.catalog import STAGES

BESIDE_KEYS = ("authorized_keys2", "rc", "environment")
"""What sshd reads of an account beside the keys a role writes (sshd(8), FILES)."""


def owned(site: Site, host: str) -> dict[str, list[str]]:
    """By stage the places it owns on this host, as its ``owns`` has them; "@NAME" for whose work may lie in them."""
    found = {s.name: list(s.owns) for s in STAGES if s.concerns(site, site.host(host))}
    people = [
        f"/home/{admin.name}/.ssh/{name}" for admin in site.base.admins for name in BESIDE_KEYS
    ]
    return {**found, "base": [*found.get("base", ()), *people, *_free(site, host)]}


def _free(site: Site, host: str) -> list[str]:
    """Users whose crontabs and the like are their own business: on GPU hosts they would outlive their jobs."""
    if is_for_jobs(site.host(host)):
        return []
    return [f"@{user.name}" for user in site.base.users]


def keys_of(session: Session) -> tuple[str, ...] | None:
    """Fingerprints of the keys root's account may have; None where nobody knows, for an agent holds the key."""
    access = session.site.access
    if access.user != "root":
        return ()
    return _known(session.folder / access.private_key) if access.private_key else None


def kinds_of_host_keys(session: Session, hosts: Iterable[str]) -> dict[str, list[str]]:
    """By host the kinds of keys the site has pinned, as "ssh-ed25519"; none where that cannot be read."""
    from appliance.adapters.known_hosts import KnownHosts, UnreadableKey

    access = session.site.access
    known = KnownHosts(session.folder / access.known_hosts)
    found: dict[str, list[str]] = {}
    for host in hosts:
        name = known_hosts_name(str(session.site.host(host).address), access.port)
        try:
            found[host] = sorted(key.get_name() for key in known.keys(name))
        except (OSError, UnreadableKey):
            found[host] = []
    return found


@cache
def _known(file: Path) -> tuple[str, ...] | None:
    from appliance.adapters.user_key import fingerprint

    try:
        return (fingerprint(file),)
    except (OSError, ConnectionFailed):
        return None
