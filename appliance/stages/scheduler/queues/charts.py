"""The charts of stage scheduler at their pinned versions, and the values the site's choices make of them."""

from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import Field

from appliance.config.tables import load
from appliance.models.base import Model
from appliance.models.profile import Profile
from appliance.models.site import Role, Site
from appliance.stages.scheduler.queues.manifest import Manifest, digest, text
from appliance.stages.scheduler.site import SchedulerOptions

SHARING_MODES = {
    "none": "Disabled",
    "unenforced": "NonMemoryEnforced",
    "nvidia": "NvFractions",
}
"""Names of the KAI chart from 0.18 on; before, sharing is one switch."""


class Chart(Model):
    """Where a chart comes from; ``versions``: the exact one by release line of ``component``.

    ``earlier``: where lines lie that were published elsewhere.
    """

    name: str
    component: str
    chart: str
    repository: str = ""
    namespace: str
    versions: dict[str, str]
    earlier: dict[str, str] = Field(default_factory=dict)
    source: str
    date: str


class Charts(Model):
    """All charts."""

    version: Literal[1]
    charts: tuple[Chart, ...]


class Release(Model):
    """One chart as it shall be installed. ``version`` None: no exact version of the line is known."""

    name: str
    chart: str
    repository: str
    namespace: str
    line: str
    version: str | None
    values_file: str
    values_digest: str
    values: Manifest = Field(exclude=True)


@cache
def charts() -> dict[str, Chart]:
    """The table of charts, by name."""
    return {
        c.name: c for c in load(Path(__file__).parents[1].joinpath("charts.yml"), Charts).charts
    }


def releases(site: Site, profile: Profile, options: SchedulerOptions) -> tuple[Release, ...]:
    """What is installed, in order: operators before the scheduler."""
    wanted: list[tuple[str, Manifest]] = []
    if profile.software.gpu_operator:
        wanted.append(("gpu-operator", _gpu_operator(options)))
    if profile.software.network_operator and profile.hardware.fabric.ports:
        wanted.append(("network-operator", _network_operator()))
    match options.kind:
        case "kai":
            wanted.append(("kai-scheduler", _kai(site, profile, options)))
        case "kai-resource-management":
            # It brings KAI with it, as a chart within the chart.
            values = {"kai-scheduler": _kai(site, profile, options)}
            wanted.append(("kai-resource-management", values))
        case "runai":
            wanted.append(("control-plane", _runai(options)))
    return tuple(_release(charts()[name], profile, values) for name, values in wanted)


def _release(chart: Chart, profile: Profile, values: Manifest) -> Release:
    release = str(getattr(profile.software, chart.component) or "")
    line = ".".join(release.split(".")[:2])
    return Release(
        name=chart.name,
        chart=chart.earlier.get(line, chart.chart),
        repository=chart.repository,
        namespace=chart.namespace,
        line=release,
        version=chart.versions.get(line),
        values_file=str(Path("values") / f"{chart.name}.yml"),
        values_digest=digest(text(values)),
        values=values,
    )


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


def mig_strategy(options: SchedulerOptions) -> str:
    """By which names parts of GPUs are offered, on every host of the cluster alike."""
    return next((pool.mig for pool in options.node_pools if pool.mig != "none"), "single")


def _gpu_operator(options: SchedulerOptions) -> Manifest:
    """Driver, toolkit and exporter are the host's: stage gpu brings them, for Slurm too."""
    return {
        "cdi": {"enabled": True},
        "dcgmExporter": {"enabled": False},
        "driver": {"enabled": False},
        "mig": {"strategy": mig_strategy(options)},
        # It would set nvidia.com/mig.config to all-disabled and undo what stage mig makes.
        "migManager": {"enabled": False},
        "nfd": {"enabled": True},
        "toolkit": {"enabled": False},
    }


def _network_operator() -> Manifest:
    """The GPU Operator's node feature discovery is the cluster's only one."""
    return {
        "maintenanceOperator": {"enabled": False},
        "nfd": {"enabled": False},
        "sriovNetworkOperator": {"enabled": False},
    }


def _runai(options: SchedulerOptions) -> Manifest:
    assert options.runai is not None
    return {"global": {"domain": options.runai.domain}}


def _line(profile: Profile) -> tuple[int, ...]:
    return tuple(int(part) for part in (profile.software.kai or "0").split(".")[:2])
