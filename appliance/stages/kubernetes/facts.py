"""Facts of a host in a Kubernetes cluster, and of a control plane about the cluster."""

from ipaddress import IPv4Network

from pydantic import Field

from appliance.models.base import Model
from appliance.models.fact_types import (
    Count,
    Line,
    NodeName,
    Number,
    PackageName,
    PackageVersion,
    Real,
    Route,
)


class KubernetesNode(Model):
    """A node as the API has it."""

    name: NodeName
    ready: bool
    reason: Line = Field(default="", description="Why it is not ready")
    version: Line = Field(default="", description="Of its kubelet, as v1.35.2")
    cordoned: bool = False
    cordoned_for: Line = Field(default="", description="Reason for which the appliance cordoned it")
    owner: Line = Field(default="kubernetes", description="Owner in its taint appliance/owner")
    tiers: dict[Line, Line] = Field(
        default_factory=dict, description="Its labels of the fabric's tiers"
    )
    pool: Line = Field(default="", description="Its label kai.scheduler/node-pool")
    taints: tuple[Line, ...] = Field(
        default=(), description="Taints of neither Kubernetes nor the appliance"
    )
    pressure: tuple[Line, ...] = Field(
        default=(), description="What kubelet lacks, as disk, memory or process IDs"
    )


class ExternalCluster(Model):
    """An external cluster (``kubernetes.external``), read from its API by the control machine."""

    api: Line = Field(description='"ok" or why it did not answer')
    fix: Line = Field(default="", description="Remedy if it did not answer")
    nodes: tuple[KubernetesNode, ...] | None = None


class EtcdMember(Model):
    """The member of etcd on a control host, from its metrics. None: unavailable."""

    bytes: Count | None = Field(default=None, description="Of its database")
    in_use: Count | None = Field(
        default=None, description="Bytes of it in use; the rest is free space"
    )
    quota: Count | None = Field(default=None, description="Quota of its database")
    alarm: Line | None = Field(
        default=None, description='Alarm of the cluster, such as NOSPACE; "": none'
    )
    sync_ms: Real | None = Field(
        default=None, description="Mean time of a disk write during the probe"
    )


class ReleasePod(Model):
    """A pod in a namespace of a release of Helm."""

    name: Line
    namespace: Line
    ready: bool
    reason: Line = Field(default="", description="Why it is not ready")


class PlatformPod(Model):
    """A pod that is not ready."""

    name: Line
    host: Line = Field(default="", description="Node on which it was placed; empty: none")
    kind: Line = Field(description="The reason in a word, such as ImagePullBackOff")
    said: Line = Field(default="", description="The reported message")
    image: Line = Field(default="", description="Image of the container that does not run")
    age_s: Count | None = None


class Workload(Model):
    """A Deployment, DaemonSet, StatefulSet or static pod of a namespace that the cluster itself needs."""

    name: Line
    namespace: Line
    kind: Line
    wanted: Count
    ready: Count
    hosts: tuple[Line, ...] = Field(default=(), description="Hosts of the pods that are ready")
    why: Line = Field(default="", description="Why fewer pods were created than requested")
    pods: tuple[PlatformPod, ...] = Field(default=(), description="Those that are not ready")


class Kubernetes(Model):
    """kubelet of this host; on a control plane also answers of the API. None: unavailable."""

    version: Line = Field(default="", description="Of kubelet, as v1.35.2")
    kubelet: Line = Field(default="", description='"ok" or the error that kubelet reports')
    services: dict[Line, Line] = Field(
        default_factory=dict, description='"ok" or the reported error, by name, such as kube-proxy'
    )
    dns: Line = Field(default="", description='"ok", or why no service name resolves from here')
    api: Line | None = Field(
        default=None, description='"ok" or the error from the API of this host'
    )
    stopped: bool = Field(
        default=False, description="The control plane is stopped for an unfinished restore of etcd"
    )
    nodes: tuple[KubernetesNode, ...] | None = None
    workloads: tuple[Workload, ...] | None = None
    images_gone: tuple[Line, ...] | None = Field(
        default=None, description="Images imported from the offline source that are missing now"
    )
    gives: dict[Line, Number] | None = Field(
        default=None,
        description="nvidia.com/... that are allocatable on this node, such as gpu or mig-1g.10gb",
    )
    plugins: tuple[ReleasePod, ...] | None = Field(
        default=None,
        description="Pods of our charts' device plugins on this node, if it offers no GPU",
    )
    etcd: EtcdMember | None = Field(default=None, description="Of a control host")
    certificates: dict[Line, Real] = Field(
        default_factory=dict, description="Days left, by file; negative: expired"
    )
    backups: Number | None = Field(default=None, description="Backups of etcd on this host")
    backup_age_h: Real | None = Field(default=None, description="Hours since the newest")


class Offer(Model):
    """Requirements of an upgrade on a host; read only before an upgrade."""

    packages: dict[PackageName, tuple[PackageVersion, ...]] = Field(
        description="Versions in its repositories, by package"
    )
    images: tuple[Line, ...] = Field(description="Images in the archives of the offline source")


class Ground(Model):
    """Swap, modules, ports, routes and clusters. Of a host that is in the site's cluster only the first two are read."""

    ours: bool = Field(description="Stage kubernetes has begun here")
    swaps: dict[Line, Count] = Field(description="Bytes in use, by device or file")
    modules: dict[Line, Line] = Field(
        description='"loaded"; "there": it can be loaded; "": it cannot'
    )
    listeners: dict[Line, Line] = Field(
        default_factory=dict, description="Program by port, of those a cluster needs"
    )
    routes: tuple[Route, ...] = Field(default=(), description="Network and interface")
    clusters: tuple[Line, ...] = Field(
        default=(), description="Traces of another cluster on this host"
    )

    def ways_to(self, network: IPv4Network) -> list[str]:
        """Routes to a part of a network."""
        return [route for route in self.routes if network.overlaps(IPv4Network(route.split()[0]))]
