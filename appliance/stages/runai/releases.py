"""The two charts of Run:ai as they are installed, and how long that may take."""

import re
from dataclasses import dataclass

from appliance.config.secrets import Secrets
from appliance.models.profile import Profile
from appliance.models.site import Site
from appliance.stages.context import Variables
from appliance.stages.kubernetes.charts import Release, arguments, release_of
from appliance.stages.runai import values
from appliance.stages.runai.values import options_of
from appliance.stages.scheduler.queues.charts import charts
from appliance.stages.scheduler.queues.manifest import Manifest
from appliance.stages.scheduler.queues.namespaces import NGC_KEY

TABLE = "appliance/stages/scheduler/charts.yml"
CONTROL_PLANE, CLUSTER = "control-plane", "runai-cluster"
RELEASES = {CONTROL_PLANE: "runai-backend", CLUSTER: "runai-cluster"}
"""Names of the releases, by chart."""
ENTITLED = "https://helm.ngc.nvidia.com/nvidia/runai"
NGC_USER = "$oauthtoken"
HOOKS = ("pre-install", "pre-delete")
"""Jobs of the cluster's chart that block the next attempt after a failed one (reported by a user of 2.21)."""


@dataclass(frozen=True)
class Waits:
    """Seconds: for the control plane's objects, the cluster's objects, and until the cluster is connected.

    Run:ai's documentation gives 15 minutes until the console answers, and 50 minutes for a whole installation; a user needed
    20 and 15 minutes for the charts.
    """

    control_plane: int = 1200
    cluster: int = 900
    connected: int = 900


WAITS = Waits()
STEP = 4
"""Minor releases that one upgrade may pass ("plan the upgrade")."""


def refusal(before: str, after: str) -> str:
    """Why an installed release cannot be upgraded to another; "" if it can."""
    old, new = (tuple(map(int, re.findall(r"\d+", one)[:3])) for one in (before, after))
    if new < old:
        return f"Run:ai {before} is installed: its documentation describes no way back to {after}"
    if new[0] == old[0] and new[1] - old[1] > STEP:
        return f"Run:ai {before} is installed: an upgrade to {after} passes more than {STEP} minor releases"
    return ""


def control_plane(site: Site, profile: Profile) -> Release:
    """The control plane's chart, without passwords."""
    return _release(site, profile, CONTROL_PLANE, values.control_plane(site))


def cluster(site: Site, profile: Profile) -> Release:
    """The cluster's chart, before its registration."""
    return _release(site, profile, CLUSTER, values.cluster(site))


def _release(site: Site, profile: Profile, chart: str, given: Manifest) -> Release:
    options, install = options_of(site)
    made = release_of(charts()[chart], profile, given)
    changes: dict[str, object] = {}
    if install.version is not None:
        changes["version"] = install.version
    if options.edition == "entitled":
        changes["repository"] = ENTITLED
    return made.model_copy(update=changes)


def as_installed(site: Site, release: Release, given: Manifest, secrets: Secrets) -> Variables:
    """A release as role scheduler installs it, with all its values. Raises ConfigError where no exact version is known."""
    options, _ = options_of(site)
    login = [NGC_USER, str(secrets[NGC_KEY])] if options.edition == "entitled" else []
    return {
        **arguments(release, TABLE),
        "name": RELEASES[release.name],
        "values": given,
        "rolls_back": False,
        "jobs": list(HOOKS) if release.name == CLUSTER else [],
        "login": login,
    }
