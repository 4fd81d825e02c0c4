"""Places that the stages own on a host, and whose keys may log in as root there."""

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
"""Files of an account that sshd reads, in addition to the keys a role writes (sshd(8), FILES)."""


def owned_places(site: Site, host: str) -> dict[str, list[str]]:
    """Return by stage the places it owns on this host, as in its ``owns``; "@NAME" if work of that scheduler may be there."""
    found = {s.name: list(s.owns) for s in STAGES if s.concerns(site, site.host(host))}
    people = [
        f"/home/{admin.name}/.ssh/{name}" for admin in site.base.admins for name in BESIDE_KEYS
    ]
    return {**found, "base": [*found.get("base", ()), *people, *_free(site, host)]}


def _free(site: Site, host: str) -> list[str]:
    """Return users who may have crontabs of their own. On GPU hosts a crontab would outlive its job."""
    if is_for_jobs(site.host(host)):
        return []
    return [f"@{user.name}" for user in site.base.users]


def root_key_fingerprints(session: Session) -> tuple[str, ...] | None:
    """Return fingerprints of the keys that root's account may have; None if unknown because an agent holds the key."""
    access = session.site.access
    if access.user != "root":
        return ()
    return _known(session.folder / access.private_key) if access.private_key else None


def host_key_types(session: Session, hosts: Iterable[str]) -> dict[str, list[str]]:
    """Return by host the kinds of host keys that the site pins, such as "ssh-ed25519"; empty if they cannot be read."""
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
