"""What Run:ai needs of the cluster, judged before the first change; what the site's files show is refused by the stage's rules."""

import re
from collections.abc import Iterator

from appliance.adapters.kubernetes import Cluster, Ref, Resource
from appliance.errors import ClusterRefused
from appliance.models.site import Site
from appliance.stages.runai.rules import GPU_OPERATOR, KUBERNETES
from appliance.stages.runai.values import options_of

DEFAULT = "storageclass.kubernetes.io/is-default-class"
PROMETHEUS, OPERATOR = "kube-prometheus-stack", "gpu-operator"
LEAST_PROMETHEUS = (88, 6, 5)
CHART = re.compile(r"([a-z-]+)-v?(\d+\.\d+\.\d+).*")
"""As kube-prometheus-stack-88.6.5 or gpu-operator-v26.3.0."""
Lack = tuple[str, str]
"""What is missing, and the remedy."""


def require(site: Site, cluster: Cluster) -> None:
    """Raises ClusterRefused with everything that is missing, and the remedy of the first."""
    found = list(lacks(site, cluster))
    if found:
        raise ClusterRefused("; ".join(said for said, _ in found), found[0][1])


def lacks(site: Site, cluster: Cluster) -> Iterator[Lack]:
    """Everything that is missing."""
    yield from _storage(site, cluster)
    yield from _ingress(site, cluster)
    yield from _operators(site, cluster)
    yield from _kubernetes(cluster)


def _storage(site: Site, cluster: Cluster) -> Iterator[Lack]:
    _, install = options_of(site)
    classes = {
        item["metadata"]["name"]: item["metadata"].get("annotations") or {}
        for item in cluster.find("storage.k8s.io/v1", "StorageClass", "")
    }
    wanted = install.storage_class
    if wanted is not None and wanted not in classes:
        known = ", ".join(sorted(classes)) or "none"
        yield f"the cluster has no StorageClass {wanted}", f"set storage_class to one of: {known}"
    if not any(notes.get(DEFAULT) == "true" for notes in classes.values()):
        remedy = "add workloads.nfs_csi, or annotate a StorageClass as the default"
        yield "the cluster has no default StorageClass", remedy


def _ingress(site: Site, cluster: Cluster) -> Iterator[Lack]:
    _, install = options_of(site)
    if cluster.get(Ref("networking.k8s.io/v1", "IngressClass", install.ingress_class)) is None:
        remedy = "install an ingress controller, or set ingress_class to a class of the cluster"
        yield f"the cluster has no IngressClass {install.ingress_class}", remedy


def _operators(site: Site, cluster: Cluster) -> Iterator[Lack]:
    _, install = options_of(site)
    if not cluster.serves("monitoring.coreos.com/v1", "Prometheus"):
        remedy = "install kube-prometheus-stack 88.6.5 or newer as release prometheus in namespace monitoring"
        yield "the cluster has no Prometheus operator", remedy
    if not cluster.serves("nvidia.com/v1", "ClusterPolicy"):
        yield "the cluster has no GPU Operator", "run appliance deploy --stage kubernetes"
    yield from _charts(cluster)
    if install.inference and not cluster.serves("serving.knative.dev/v1", "Service"):
        remedy = "install Knative Serving 1.21 to 1.23, or remove inference"
        yield "the cluster has no Knative Serving", remedy


def _charts(cluster: Cluster) -> Iterator[Lack]:
    """Releases of the Prometheus stack and of the GPU Operator, as their charts label their objects; without a label, not judged."""
    stack = cluster.find("apps/v1", "Deployment", f"app.kubernetes.io/part-of={PROMETHEUS}")
    found = next((one for one in map(_chart_of, stack) if one and one[0] == PROMETHEUS), None)
    if found and _numbers(found[1]) < LEAST_PROMETHEUS:
        least = ".".join(map(str, LEAST_PROMETHEUS))
        said = f"{PROMETHEUS} is {found[1]}, and Run:ai needs {least} or newer"
        yield said, f"upgrade release prometheus in namespace monitoring to {least} or newer"
    policies = cluster.find("nvidia.com/v1", "ClusterPolicy", "")
    found = next((one for one in map(_chart_of, policies) if one and one[0] == OPERATOR), None)
    if found and not GPU_OPERATOR[0] <= _numbers(found[1])[:2] <= GPU_OPERATOR[1]:
        ends = " to ".join(".".join(map(str, end)) for end in GPU_OPERATOR)
        said = f"the GPU Operator is {found[1]}, and Run:ai supports {ends}"
        yield (
            said,
            'set software.gpu_operator: "26.3", then run appliance deploy --stage kubernetes',
        )


def _chart_of(found: Resource) -> tuple[str, str] | None:
    """Name and version of the chart that made an object, by Helm's label or by the older one."""
    labels = found["metadata"].get("labels") or {}
    parts = CHART.fullmatch(str(labels.get("helm.sh/chart") or labels.get("chart") or ""))
    return (parts[1], parts[2]) if parts else None


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def _kubernetes(cluster: Cluster) -> Iterator[Lack]:
    least, most = KUBERNETES
    for node in cluster.find("v1", "Node", ""):
        found = str(node.get("status", {}).get("nodeInfo", {}).get("kubeletVersion", ""))
        parts = found.lstrip("v").split(".")[:2]
        if len(parts) < 2 or not all(part.isdigit() for part in parts):
            continue
        if not least <= (int(parts[0]), int(parts[1])) <= most:
            name = node["metadata"]["name"]
            ends = " to ".join(".".join(map(str, end)) for end in KUBERNETES)
            yield (
                f"{name} runs Kubernetes {found}, and Run:ai supports {ends}",
                "upgrade the cluster",
            )
