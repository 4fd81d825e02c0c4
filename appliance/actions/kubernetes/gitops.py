"""The site's queues and charts as a folder that kubectl -k, Argo CD and Flux apply."""

from collections.abc import Iterable, Iterator
from enum import StrEnum

from appliance.config.load import LoadedSite
from appliance.stages.kubernetes.charts import Release
from appliance.stages.scheduler.queues.manifest import Manifest, documents, text
from appliance.stages.scheduler.queues.rendered import Rendered
from appliance.stages.workloads.network import policies
from appliance.stages.workloads.releases import namespaces, releases

OCI = "oci://"
KUSTOMIZATION = "kustomization.yaml"


class Tool(StrEnum):
    """What installs the charts."""

    ARGOCD = "argocd"
    FLUX = "flux"


def files(loaded: LoadedSite, wanted: Rendered, tool: Tool | None) -> dict[str, str]:
    """What ``queue render`` writes, by path: for ``tool`` also objects that install the charts of scheduler and workloads."""
    found = wanted.files()
    listed = ["resources.yml"]
    if tool:
        charts = [chart for chart in (*wanted.charts, *releases(loaded.site)) if chart.version]
        make = _application if tool is Tool.ARGOCD else _helm_release
        objects = [made for chart in charts for made in make(chart)]
        found[f"{tool}.yml"] = documents(_once(objects))
        listed.append(f"{tool}.yml")
        if own := [*namespaces(loaded.site), *policies(loaded.site)]:
            found["workloads.yml"] = documents(own)
            listed.append("workloads.yml")
    listing = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": listed,
    }
    return {**found, KUSTOMIZATION: text(listing)}


def _application(chart: Release) -> Iterator[Manifest]:
    """An Application of Argo CD, whose OCI repositories have no scheme."""
    repository, name = _source(chart)
    yield {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Application",
        "metadata": {"name": chart.name, "namespace": "argocd"},
        "spec": {
            "project": "default",
            "source": {
                "repoURL": repository.removeprefix(OCI),
                "chart": name,
                "targetRevision": chart.version,
                "helm": {"releaseName": chart.name, "valuesObject": chart.values},
            },
            "destination": {
                "server": "https://kubernetes.default.svc",
                "namespace": chart.namespace,
            },
            "syncPolicy": {
                "automated": {},
                "syncOptions": ["CreateNamespace=true", "ServerSideApply=true"],
            },
        },
    }


def _helm_release(chart: Release) -> Iterator[Manifest]:
    """A HelmRelease of Flux, and the repository of its chart."""
    repository, name = _source(chart)
    metadata = {"name": chart.name, "namespace": "flux-system"}
    yield {
        "apiVersion": "source.toolkit.fluxcd.io/v1",
        "kind": "HelmRepository",
        "metadata": metadata,
        "spec": {
            "interval": "1h",
            "url": repository,
            **({"type": "oci"} if repository.startswith(OCI) else {}),
        },
    }
    yield {
        "apiVersion": "helm.toolkit.fluxcd.io/v2",
        "kind": "HelmRelease",
        "metadata": metadata,
        "spec": {
            "interval": "1h",
            "releaseName": chart.name,
            "targetNamespace": chart.namespace,
            "storageNamespace": chart.namespace,
            "install": {"createNamespace": True},
            "chart": {
                "spec": {
                    "chart": name,
                    "version": chart.version,
                    "sourceRef": {"kind": "HelmRepository", "name": chart.name},
                }
            },
            "values": chart.values,
        },
    }


def _source(chart: Release) -> tuple[str, str]:
    """Repository and name of a chart; an OCI chart is named by its whole address."""
    if chart.chart.startswith(OCI):
        repository, _, name = chart.chart.rpartition("/")
        return repository, name
    return chart.repository, chart.chart


def _once(objects: Iterable[Manifest]) -> list[Manifest]:
    found = {(one["kind"], one["metadata"]["name"]): one for one in objects}
    return list(found.values())
