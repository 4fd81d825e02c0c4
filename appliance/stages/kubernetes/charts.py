"""Charts at pinned versions with their values, and those that provide the GPUs of a cluster."""

from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import Field

from appliance.config.tables import load
from appliance.errors import ConfigError
from appliance.models.base import Model
from appliance.models.profile import Profile
from appliance.models.site import Site
from appliance.stages.context import Variables
from appliance.stages.kubernetes.site import KubernetesOptions
from appliance.stages.scheduler.queues.manifest import Manifest, digest, text

GPU_OPERATOR, DEVICE_PLUGIN = "gpu-operator", "nvidia-device-plugin"
RUNTIME_CLASS = "nvidia"
CDI_HOOK = "/usr/bin/nvidia-cdi-hook"
"""Hook of the container toolkit, which stage gpu installs."""
GPU_HOSTS = {"appliance/role": "gpu"}
"""Label of GPU hosts (``variables.labels``)."""


class Chart(Model):
    """Source of a chart; ``versions``: exact version by release line of ``component``.

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
    """All charts of a table."""

    version: Literal[1]
    charts: tuple[Chart, ...]


class Release(Model):
    """One chart to install. ``version`` None: no exact version of the line is known."""

    name: str
    chart: str
    repository: str
    namespace: str
    line: str
    version: str | None
    values_file: str
    values_digest: str
    values: Manifest = Field(exclude=True)


def table(file: Path) -> dict[str, Chart]:
    """Return a table of charts, by name."""
    return {chart.name: chart for chart in load(file, Charts).charts}


@cache
def charts() -> dict[str, Chart]:
    """Return the charts of this stage, by name."""
    return table(Path(__file__).with_name("charts.yml"))


def release_of(chart: Chart, profile: Profile, values: Manifest) -> Release:
    """Return a chart in the release that the site or its profile chose."""
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


def arguments(release: Release, table: str) -> Variables:
    """Return a release as the roles install it; ``table``: the file with exact versions. Raises ConfigError without one."""
    if release.version is None:
        raise ConfigError(
            f"no exact version of chart {release.name} is known for release {release.line}",
            f"choose another release under software, or add its version to {table}",
        )
    return {
        "name": release.name,
        "namespace": release.namespace,
        "chart": release.chart,
        "repository": release.repository,
        "version": release.version,
        "values": release.values,
    }


def component(given: KubernetesOptions) -> str:
    """Return the key of ``software`` whose chart provides GPUs; "" if the site has its own device plugin."""
    return {"operator": "gpu_operator", "plugin": "device_plugin"}.get(given.device_plugin, "")


def releases(site: Site, profile: Profile) -> tuple[Release, ...]:
    """Return the charts that provide the GPUs of the site's own cluster."""
    given = site.kubernetes
    return () if given is None or given.external is not None else suited(site, profile)


def suited(site: Site, profile: Profile) -> tuple[Release, ...]:
    """Return the chart that provides the cluster's GPUs; none if the site has its own device plugin and no scheduler.

    With a scheduler and its own device plugin, a site gets the operator without device plugin: it creates the
    RuntimeClass that KAI gives to pods with a GPU (v0.12.0).
    """
    given = site.kubernetes or KubernetesOptions()
    if given.device_plugin == "plugin":
        chart, values = charts()[DEVICE_PLUGIN], _device_plugin(site)
    elif given.device_plugin == "operator" or site.scheduler is not None:
        chart, values = charts()[GPU_OPERATOR], _gpu_operator(site, given)
    else:
        return ()
    chosen = getattr(profile.software, chart.component)
    return (release_of(chart, profile, values),) if chosen else ()


def replaced(site: Site, profile: Profile) -> tuple[Chart, ...]:
    """Return charts to remove, because two device plugins would offer the same GPUs."""
    own = {release.name for release in releases(site, profile)}
    given = site.kubernetes
    if given is None or given.device_plugin == "own" or not own:
        return ()
    return tuple(chart for name, chart in charts().items() if name not in own)


def mig_strategy(site: Site) -> str:
    """Return the MIG strategy, which decides the resource names of instances on all hosts.

    Without a scheduler, no pool guarantees equally divided GPUs on a host, which strategy single requires.
    """
    if site.scheduler is None:
        return "mixed"
    return next((pool.mig for pool in site.scheduler.node_pools if pool.mig != "none"), "single")


def runtime_class(site: Site, profile: Profile) -> list[Manifest]:
    """Return the RuntimeClass that the GPU Operator would create."""
    if DEVICE_PLUGIN not in {release.name for release in releases(site, profile)}:
        return []
    return [
        {
            "apiVersion": "node.k8s.io/v1",
            "kind": "RuntimeClass",
            "metadata": {"name": RUNTIME_CLASS},
            "handler": RUNTIME_CLASS,
        }
    ]


def _gpu_operator(site: Site, given: KubernetesOptions) -> Manifest:
    """Return values of the GPU Operator. Driver, toolkit and exporter belong to the host: stage gpu installs them, for Slurm, too."""
    own = {"devicePlugin": {"enabled": False}} if given.device_plugin == "own" else {}
    return {
        "cdi": {"enabled": True},
        "dcgmExporter": {"enabled": False},
        **own,
        "driver": {"enabled": False},
        "mig": {"strategy": mig_strategy(site)},
        # It would set nvidia.com/mig.config to all-disabled and undo what stage mig makes.
        "migManager": {"enabled": False},
        "nfd": {"enabled": True},
        "toolkit": {"enabled": False},
    }


def _device_plugin(site: Site) -> Manifest:
    """Return values of the device plugin: on hosts with our label instead of node feature discovery's; GPUs by CDI."""
    return {
        "affinity": None,
        "cdi": {"nvidiaHookPath": CDI_HOOK},
        "deviceListStrategy": "cdi-cri",
        "migStrategy": mig_strategy(site),
        "nodeSelector": GPU_HOSTS,
        "nvidiaDriverRoot": "/",
        "runtimeClassName": RUNTIME_CLASS,
        # Other containers see no GPU that they name in a variable: the toolkit's configuration by stage gpu.
        "securityContext": {"privileged": True},
    }
