"""Removal: a host leaves the site, its schedulers, known_hosts and monitoring; what it can still open is closed or named."""

from collections.abc import Callable
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path

from appliance.actions.deployment.deploy import Deployed
from appliance.actions.hosts import maintenance
from appliance.actions.hosts.other_hosts import deploy_others, pending
from appliance.actions.hosts.owners import HostOwner
from appliance.actions.hosts.replacement import (
    host_named,
    require_free,
    seen_by_schedulers,
    silence,
)
from appliance.actions.profiles.limit_bounds import check_ids
from appliance.actions.sites.opening import Target, locate, open_session
from appliance.adapters.remote import known_hosts_name
from appliance.config import known_hosts_lines
from appliance.config.load import LoadedSite, load_site
from appliance.config.site_edit import replace_file, without
from appliance.engine.run.drain import schedulers
from appliance.engine.session import Session
from appliance.errors import ApplianceError, ConfigError
from appliance.models.events import Observer
from appliance.models.site import Host, Role, Site

WHY, REMOVED = "leaves the site", "removed"
"""The reason of the drain, and the kind of the journal entry."""
CLOSE = """
systemctl disable --now slurmd kubelet munge >/dev/null 2>&1
rm -f /etc/munge/munge.key /etc/kubernetes/kubelet.conf /etc/kubernetes/bootstrap-kubelet.conf
rm -rf /var/lib/kubelet/pki
[ ! -e /etc/munge/munge.key ] && [ ! -e /etc/kubernetes/kubelet.conf ] && [ ! -e /var/lib/kubelet/pki ]
"""
"""Ends the host's daemons and deletes what other hosts accept from it; succeeds if nothing of it is left."""
CLOSED = (
    "munge's key and the kubelet's certificate were deleted on it, and its daemons were stopped"
)
OPEN = (
    "its disk still holds munge's key and the kubelet's certificate: erase it, or change the key "
    "(docs/operations.md, Secrets and keys)"
)


@dataclass(frozen=True)
class Leaving:
    """What is about to be done, for the confirmation. ``difference``: of site.yml, as lines."""

    host: Host
    seen: HostOwner | None
    silent: str
    difference: tuple[str, ...]
    minutes: float
    evict: bool


@dataclass(frozen=True)
class Removed:
    """The result. ``rest``: what the old host can still open; ``failed``: a deployment of other hosts that failed."""

    host: str
    declined: bool = False
    rest: str = ""
    others: tuple[str, ...] = ()
    failed: Deployed | None = None

    @property
    def exit_code(self) -> int:
        """0 removed; the deployment's own if that failed."""
        return self.failed.exit_code if self.failed else int(self.declined)


def remove_host(
    target: Target,
    name: str,
    observer: Observer,
    consent: Callable[[Leaving], bool],
    minutes: float,
    *,
    evict: bool = False,
    force: bool = False,
) -> Removed:
    """Remove one host; an interrupted removal is continued by the same call.

    Raises ConfigError before any change if the site cannot do without the host, or names it elsewhere; ApplianceError if its work
    does not end.
    """
    loaded = locate(target, observer=observer)
    host = removable(loaded.site, name)
    file = loaded.site_document.file

    def load(path: Path) -> LoadedSite:
        return load_site(path, target.profile, check_ids=check_ids())

    with without(file, name, load) as (text, new_text, _):
        lines = text.splitlines(), new_text.splitlines()
        difference = tuple(unified_diff(*lines, str(file), str(file), lineterm=""))
    with open_session(target, "node", observer) as session:
        seen = seen_by_schedulers(session, host, force=force)
        silent = silence(session, host)
    require_free(host, seen, silent, evict=evict)
    if not consent(Leaving(host, seen, silent, difference, minutes, evict)):
        return Removed(name, declined=True)
    before = pending(target, observer, name)
    with open_session(target, "node", observer, changes=True) as session:
        maintenance.record_start(session, "node remove", [name])
        if seen:
            _drain(session, seen, 0.0 if silent else minutes, evict=evict, dead=bool(silent))
        rest = OPEN if silent else _close(session, name)
        for scheduler in schedulers(session) if seen else ():
            scheduler.forget(name)
        with without(file, name, load) as (_, _, new):
            replace_file(new, file.resolve())
        _unpin(loaded, host)
        session.journal.append(session.run, REMOVED, host=name)
    others, failed = deploy_others(target, observer, name, before)
    return Removed(name, rest=rest, others=others, failed=failed)


def removable(site: Site, name: str) -> Host:
    """The host, if the site can do without it. Raises ConfigError."""
    host = host_named(site, name)
    control = len(site.with_role(Role.CONTROL))
    if Role.CONTROL in host.roles and control == 1:
        raise ConfigError(
            f"{name} is the last control host: the schedulers run there",
            "give the role to another host first (docs/site.md)",
        )
    if Role.CONTROL in host.roles:
        raise ConfigError(
            f"{name} is one of {control} control hosts: {control - 1} have no majority after a failure",
            f"exchange it: appliance node replace {name}",
        )
    if Role.STORAGE in host.roles and len(site.with_role(Role.STORAGE)) == 1:
        raise ConfigError(
            f"{name} is the last storage host: its disks hold the users' data",
            "give the role to another host first, and copy the data (docs/site.md)",
        )
    return host


def _drain(session: Session, seen: HostOwner, minutes: float, *, evict: bool, dead: bool) -> None:
    planned = maintenance.maintenance_for(WHY)
    (kept,) = maintenance.begin(session, [seen], planned, minutes, evict=evict, dead=dead)
    if kept.work and not dead:
        raise ApplianceError(
            f"{seen.host} is not free: {', '.join(kept.work[:3])}; it stays drained and was not removed",
            f"wait longer with --wait, end the work with --evict, or give up: appliance node return {seen.host}",
        )


def _close(session: Session, name: str) -> str:
    """Close on the host what it can open; what is left is named."""
    try:
        done = session.remote.run(name, ["sh", "-c", CLOSE], timeout=120)
    except ApplianceError:
        return OPEN
    return OPEN if done.returncode else CLOSED


def _unpin(loaded: LoadedSite, host: Host) -> None:
    name = known_hosts_name(str(host.address), loaded.site.access.port)
    file = loaded.folder / loaded.site.access.known_hosts
    known_hosts_lines.replace(file, {name: ""})
