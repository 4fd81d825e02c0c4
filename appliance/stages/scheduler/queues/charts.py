"""The charts of stage scheduler at their pinned versions, and the values the site's choices make of them."""

from functools import cache
from pathlib import Path

from appliance.models.profile import Profile
from appliance.models.site import Role, Site
from appliance.stages.kubernetes.charts import Chart, Release, release_of, table
from appliance.stages.scheduler.queues.manifest import Manifest
from appliance.stages.scheduler.site import SchedulerOptions

SHARING_MODES = {
    "none": "Disabled",
    "unenforced": "NonMemoryEnforced",
    "nvidia": "NvFractions",
}
"""Names of the KAI chart from 0.18 on; before, sharing is one switch."""


@cache
def charts() -> dict[str, Chart]:
    """The charts of this stage, by name."""
    return table(Path(__file__).parents[1] / "charts.yml")


def releases(site: Site, profile: Profile, options: SchedulerOptions) -> tuple[Release, ...]:
    """The charts in order of installation: the operator before the scheduler."""
    wanted: list[tuple[str, Manifest]] = []
    if profile.software.network_operator and any(
        own.hardware.fabric.ports for own in site.profiles(profile)
    ):
        wanted.append(("network-operator", _network_operator(site)))
    match options.kind:
        case "kai":
            wanted.append(("kai-scheduler", _kai(site, profile, options)))
        case "kai-resource-management":
            # It brings KAI with it, as a chart within the chart.
            values = {"kai-scheduler": _kai(site, profile, options)}
            wanted.append(("kai-resource-management", values))
    return tuple(release_of(charts()[name], profile, values) for name, values in wanted)


def _kai(site: Site, profile: Profile, options: SchedulerOptions) -> Manifest:
    several = len(site.with_role(Role.CONTROL)) > 1
    return {
        # With the other queues, where a change of mind is carried out too.
        "defaultQueue": {"createDefaultQueue": False},
        "global": {"leaderElection": several, **_sharing(profile, options)},
        "operator": {"replicaCount": 2 if several else 1},
        "scheduler": {"placementStrategy": "binpack"},
    }


def _sharing(profile: Profile, options: SchedulerOptions) -> Manifest:
    if _line(profile) < (0, 18):
        return {"gpuSharing": options.sharing != "none"}
    mode: Manifest = {"gpuSharingMode": SHARING_MODES[options.sharing]}
    return {**mode, "nvFractions": {"set": True}} if options.sharing == "nvidia" else mode


def _network_operator(site: Site) -> Manifest:
    """A cluster has one node feature discovery: the GPU Operator's, where that is installed."""
    alone = site.kubernetes is not None and site.kubernetes.device_plugin == "plugin"
    return {
        "maintenanceOperator": {"enabled": False},
        "nfd": {"enabled": alone},
        "sriovNetworkOperator": {"enabled": False},
    }


def _line(profile: Profile) -> tuple[int, ...]:
    return tuple(int(part) for part in (profile.software.kai or "0").split(".")[:2])
