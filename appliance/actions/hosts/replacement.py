"""Replacement: a host whose machine or disk is new is installed, trusted, deployed, judged and returned to work."""

import base64
import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass

from appliance.actions.deployment.deploy import Deployed, deploy
from appliance.actions.hosts import maintenance, trust
from appliance.actions.hosts.other_hosts import deploy_others, failures_of, pending
from appliance.actions.hosts.owners import HostOwner
from appliance.actions.hosts.trust import Offer
from appliance.actions.sites.opening import Target, locate, open_session
from appliance.adapters.known_hosts import KnownHosts
from appliance.adapters.remote import known_hosts_name
from appliance.config.load import LoadedSite
from appliance.engine.plan.selection import Filters
from appliance.engine.session import Session
from appliance.errors import ApplianceError, ConfigError
from appliance.models.events import Observer
from appliance.models.result import CheckResult
from appliance.models.site import Host, Role, Site
from appliance.report.formatting import fold

WHY = "is replaced"
SSH_PATIENCE = 300.0
"""Seconds for the new machine's SSH server."""
PAUSE = 3.0
NOT_RUN = "benchmarks (appliance validate nvbandwidth gemm), for which the host must be in service"


@dataclass(frozen=True)
class Intent:
    """What is about to be done, for the confirmation. ``silent``: why the host does not answer with its pinned key.

    ``installs``: its disk is erased and installed by its BMC.
    """

    host: Host
    seen: HostOwner | None
    silent: str
    installs: bool
    minutes: float
    evict: bool


@dataclass(frozen=True)
class KeyOffer:
    """The key that the machine shows, and the fingerprints that are pinned."""

    offer: Offer
    pinned: tuple[str, ...]


@dataclass(frozen=True)
class Replaced:
    """The result. ``failures``: why the host was not returned; ``others``: hosts that were deployed because of it."""

    host: str
    declined: bool = False
    deployed: Deployed | None = None
    failures: tuple[CheckResult, ...] = ()
    others: tuple[str, ...] = ()
    returned: maintenance.Returned | None = None
    is_new_key: bool = False

    @property
    def exit_code(self) -> int:
        """0 in service, 1 not; the deployment's own if that failed."""
        if self.deployed and self.deployed.exit_code not in {0, 3}:
            return self.deployed.exit_code
        works = self.returned is None or self.returned.works
        return int(self.declined or bool(self.failures) or not works or self.deployed is None)


def replace_host(
    target: Target,
    name: str,
    observer: Observer,
    consent: Callable[[Intent], bool],
    may_pin: Callable[[KeyOffer], bool],
    minutes: float,
    *,
    evict: bool = False,
    force: bool = False,
    installed: bool = False,
) -> Replaced:
    """Replace one host; an interrupted replacement is continued by the same call.

    ``evict``: end the work that is left after ``minutes``, or that is lost with a dead machine. ``installed``: the machine has a new
    system already, although it has a BMC. ``force``: replace another operator's drain.
    Raises ConfigError before any change if the host may not be replaced; ApplianceError if its work does not end.
    """
    loaded = locate(target, observer=observer)
    host = replaceable(loaded.site, name)
    installs = bool(loaded.site.provision and host.bmc) and not installed
    with open_session(target, "node", observer) as session:
        seen = seen_by_schedulers(session, host, force=force)
        silent = silence(session, host)
    require_free(host, seen, silent, evict=evict)
    if not consent(Intent(host, seen, silent, installs, minutes, evict)):
        return Replaced(name, declined=True)
    before = pending(target, observer, name)
    if seen:
        _drain(target, observer, seen, 0.0 if silent else minutes, evict=evict, dead=bool(silent))
    if installs:
        _install(target, name, observer)
    new = trusted(locate(target), name, may_pin)
    if new is None:
        return Replaced(name, declined=True)
    done = deploy(target, Filters(limit=(name,), accept_facts=(name,)), observer, lambda _: True)
    if done.record is None or done.exit_code not in {0, 3}:
        return Replaced(name, deployed=done, is_new_key=new)
    others, failed = deploy_others(target, observer, name, before)
    if failed:
        return Replaced(name, deployed=failed, others=others, is_new_key=new)
    failures = failures_of(target, observer, name)
    if failures or not seen:
        return Replaced(name, deployed=done, failures=failures, others=others, is_new_key=new)
    with open_session(target, "node", observer, changes=True) as session:
        (returned,) = maintenance.end(session, [name])
    return Replaced(name, deployed=done, others=others, returned=returned, is_new_key=new)


def host_named(site: Site, name: str) -> Host:
    """The host of this name. Raises ConfigError if there is none."""
    host = next((h for h in site.hosts if h.name == name), None)
    if host is None:
        raise ConfigError(f"{name}: no such host", f"hosts: {fold([h.name for h in site.hosts])}")
    return host


def replaceable(site: Site, name: str) -> Host:
    """The host, if the site survives that its disk is blank. Raises ConfigError."""
    host = host_named(site, name)
    if Role.STORAGE in host.roles:
        raise ConfigError(
            f"{name} is a storage host: its disks hold the users' data, which this program cannot restore",
            f"copy the data, install the host, then: appliance trust --hosts {name}; appliance deploy --hosts {name}",
        )
    if Role.CONTROL in host.roles and len(site.with_role(Role.CONTROL)) == 1:
        raise ConfigError(
            f"{name} is the only control host: its disk holds the state of the schedulers",
            "restore it as in docs/operations.md, Backup",
        )
    return host


def seen_by_schedulers(session: Session, host: Host, *, force: bool) -> HostOwner | None:
    """The host as its schedulers see it; None for a host that none of them gives work."""
    if Role.GPU not in host.roles:
        return None
    (seen,) = maintenance.looked(session, [host])
    maintenance.require_own([seen], force=force)
    return seen


def silence(session: Session, host: Host) -> str:
    """Why the host does not answer with its pinned key; "" if it does."""
    try:
        session.remote.reach(host.name)
    except ApplianceError as error:
        return error.message
    return ""


def require_free(host: Host, seen: HostOwner | None, silent: str, *, evict: bool) -> None:
    """Raises ConfigError for work on a machine that does not answer: it ends no work, so that to wait is in vain."""
    if silent and seen and seen.work and not evict:
        raise ConfigError(
            f"{host.name} does not answer ({silent}), but its scheduler lists work there: {', '.join(seen.work[:3])}",
            "if the machine is lost, so is that work: add --evict",
        )


def _drain(
    target: Target,
    observer: Observer,
    seen: HostOwner,
    minutes: float,
    *,
    evict: bool,
    dead: bool,
) -> None:
    planned = maintenance.maintenance_for(WHY)
    with open_session(target, "node", observer, changes=True) as session:
        maintenance.record_start(session, "node replace", [seen.host])
        (kept,) = maintenance.begin(session, [seen], planned, minutes, evict=evict, dead=dead)
        if kept.work and not dead:
            raise ApplianceError(
                f"{seen.host} is not free: {', '.join(kept.work[:3])}; it stays drained and was not replaced",
                f"wait longer with --wait, end the work with --evict, or give up: appliance node return {seen.host}",
            )


def _install(target: Target, name: str, observer: Observer) -> None:
    # Slow to import, and only needed by sites with an image.
    from appliance.actions.provisioning.provision import install

    done = install(target, (name,), (name,), observer, lambda _: True, force=True) or []
    for one in done:
        if one.error:
            raise one.error


def trusted(loaded: LoadedSite, name: str, may_pin: Callable[[KeyOffer], bool]) -> bool | None:
    """Pin the key that the machine shows, with consent: whether it is a new one; None if declined.

    Raises ApplianceError if its SSH server does not answer in time.
    """
    deadline = time.monotonic() + SSH_PATIENCE
    while True:
        found, silent = trust.offers(loaded, (name,))
        if found:
            break
        if time.monotonic() >= deadline:
            error = silent[name]
            raise ApplianceError(
                f"{name}: {error.message}",
                f"{error.hint}; install its system, then run the same command again",
            )
        time.sleep(PAUSE)
    for alike in trust.shared(loaded, found):
        raise ConfigError(
            f"{', '.join(alike)} show the same host key: one machine answers for both, or one is a clone",
            f"on {name}: rm /etc/ssh/ssh_host_*; ssh-keygen -A; restart sshd; then run the same command again",
        )
    (offer,) = found
    if offer.state == "pinned":
        return False
    pinned = pinned_fingerprints(loaded, name)
    return True if trust.pin(loaded, found, lambda one: may_pin(KeyOffer(one, pinned))) else None


def pinned_fingerprints(loaded: LoadedSite, name: str) -> tuple[str, ...]:
    """The fingerprints of the keys that known_hosts has of a host."""
    site = loaded.site
    address = known_hosts_name(str(site.host(name).address), site.access.port)
    file = loaded.folder / site.access.known_hosts
    keys = KnownHosts(file).keys(address) if file.exists() else ()
    digests = (hashlib.sha256(key.asbytes()).digest() for key in keys)
    return tuple(f"SHA256:{base64.b64encode(d).decode().rstrip('=')}" for d in digests)
