"""Installs Run:ai step by step. Nothing is rolled back: what failed stays to be looked at, and its cause is reported."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from appliance.adapters.kubernetes import Cluster
from appliance.config.secrets import Secrets
from appliance.engine.run import runai_names, runai_preflight
from appliance.errors import ApplianceError, ClusterFailed, ClusterRefused
from appliance.models.profile import Profile
from appliance.models.site import Site
from appliance.stages.context import Variables
from appliance.stages.runai import objects, releases, values
from appliance.stages.runai.objects import Files
from appliance.stages.runai.registration import (
    ACCOUNT,
    ADMINISTRATOR,
    CONNECTED,
    WAITING,
    Account,
    ClusterState,
    ControlPlane,
)
from appliance.stages.runai.releases import WAITS, Waits

POLL_S = 10.0
ATTEMPTS = 2
"""Helm runs of the cluster's chart in one deployment; each has a bootstrap token of its own."""

Attempt = Callable[[Variables, int], None]
"""Runs Helm once for a release, for so many seconds. Raises ApplianceError with the cause."""


@dataclass(frozen=True)
class Installing:
    """What the steps work with. ``keep``: stores the service account, None if the site has one. ``before``: the installed version.

    ``now`` and ``sleep``: the clock, in seconds.
    """

    site: Site
    profile: Profile
    secrets: Secrets
    files: Files
    cluster: Cluster
    attempt: Attempt
    connect: Callable[[], ControlPlane]
    keep: Callable[[Account], None] | None
    progress: Callable[[str], None]
    before: str = ""
    waits: Waits = WAITS
    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


@dataclass(frozen=True)
class Installed:
    """The cluster's id and version in Run:ai."""

    cluster: str
    version: str


def install(given: Installing) -> Installed:
    """All steps in their documented order. Raises ApplianceError at the first that fails."""
    site = given.site
    options, chosen = values.options_of(site)
    if said := _no_way(given):
        raise ClusterRefused(said, "upgrade in smaller steps: scheduler.runai.install.version")
    runai_preflight.require(site, given.cluster)
    runai_names.require(site, given.cluster, given.now, given.sleep)
    given.progress("preflight")
    for item in (*objects.namespaces(site), *objects.secrets(site, given.files, given.secrets)):
        given.cluster.apply(item)
    given.progress("namespaces and secrets")
    _control_plane(given)
    given.progress("control plane")
    plane = given.connect()
    _wait(given, lambda: plane.log_in(chosen.admin, str(given.secrets[values.ADMIN_PASSWORD])))
    uid = plane.cluster(options.cluster or site.name, options.host)
    given.progress("registration")
    if given.keep is not None:
        given.keep(plane.account(ACCOUNT, ADMINISTRATOR, uid))
        given.progress(f"service account {ACCOUNT}")
    _engine(given, plane, uid)
    given.progress("cluster engine")
    return Installed(uid, _connected(given, plane, uid).version)


def _version(given: Installing) -> str:
    return releases.cluster(given.site, given.profile).version or ""


def _no_way(given: Installing) -> str:
    after = _version(given)
    return releases.refusal(given.before, after) if given.before and after else ""


def _control_plane(given: Installing) -> None:
    release = releases.control_plane(given.site, given.profile)
    whole = values.merged(release.values, values.secret_values(given.secrets))
    made = releases.as_installed(given.site, release, whole, given.secrets)
    given.attempt(made, given.waits.control_plane)


def _wait(given: Installing, log_in: Callable[[], None]) -> None:
    """The control plane answers some minutes after Helm is done. Raises the last error, and a refusal at once."""
    end = given.now() + given.waits.control_plane
    while True:
        try:
            log_in()
            return
        except ClusterRefused:
            raise
        except ClusterFailed:
            if given.now() >= end:
                raise
            given.sleep(POLL_S)


def _engine(given: Installing, plane: ControlPlane, uid: str) -> None:
    """Helm with a new token each time: one that was fetched for an earlier attempt may have expired meanwhile."""
    options, _ = values.options_of(given.site)
    release = releases.cluster(given.site, given.profile)
    for left in reversed(range(ATTEMPTS)):
        token = plane.bootstrap_token(uid, release.version or "", options.address)
        whole = values.registered(release.values, uid, token)
        made = releases.as_installed(given.site, release, whole, given.secrets)
        try:
            given.attempt(made, given.waits.cluster)
            return
        except ClusterFailed:
            if not left:
                raise
            given.progress("cluster engine: second attempt with a new token")


def _connected(given: Installing, plane: ControlPlane, uid: str) -> ClusterState:
    """Wait until the control plane reports the cluster as connected. Raises ClusterFailed with the cause."""
    end = given.now() + given.waits.connected
    while True:
        try:
            state = plane.state(uid)
        except ClusterRefused:
            raise
        except ClusterFailed:
            if given.now() >= end:
                raise
        else:
            if state.state == CONNECTED and state.version in ("", _version(given)):
                return state
            if given.now() >= end:
                raise ClusterFailed(*_not_connected(given, state))
        given.sleep(POLL_S)


def _not_connected(given: Installing, state: ClusterState) -> tuple[str, str]:
    """Cause and remedy."""
    minutes = given.waits.connected // 60
    if state.state == CONNECTED:
        said = f"the cluster engine is still {state.version} after {minutes} minutes, not {_version(given)}"
        return said, "look at its parts: kubectl -n runai get pods"
    said = f"Run:ai reports {state.state} after {minutes} minutes"
    if state.cause:
        return f"{said}: {state.cause}", "correct it, then run appliance deploy --stage runai"
    options, _ = values.options_of(given.site)
    if state.state == WAITING:
        agent = f"its agent has not reached {options.address}"
        remedy = "look at its log: kubectl -n runai logs deployment/runai-agent; pods must resolve that name and trust its certificate"
        return f"{said}: {agent}", remedy
    return said, "look at its parts: kubectl -n runai get pods"


def read_files(site: Site, read: Callable[[str], str]) -> Files:
    """The certificates that the secrets are made of. Raises ApplianceError where one cannot be read."""
    found: Files = {}
    for name in objects.files_of(site):
        try:
            found[name] = read(name)
        except OSError as error:
            raise ApplianceError(
                f"{name} cannot be read ({error.strerror})",
                "the path is relative to the site's folder",
            ) from None
    return found
