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
    cordoned_for: Line = Field(default="", description="What the appliance cordoned it for")
    owner: Line = Field(default="kubernetes", description="Of its taint appliance/owner")
    tiers: dict[Line, Line] = Field(
        default_factory=dict, description="Its labels of the fabric's tiers"
    )
    pool: Line = Field(default="", description="Its label kai.scheduler/node-pool")
    taints: tuple[Line, ...] = Field(
        default=(), description="Taints that neither Kubernetes nor the appliance sets"
    )


class ExternalCluster(Model):
    """An external cluster (``kubernetes.external``), read from its API by the control machine."""

    api: Line = Field(description='"ok" or why it did not answer')
    fix: Line = Field(default="", description="What to do where it did not")
    nodes: tuple[KubernetesNode, ...] | None = None


class EtcdMember(Model):
    """The member of etcd on a control host, as its metrics have it. None: not to be had."""

    bytes: Count | None = Field(default=None, description="Of its database")
    in_use: Count | None = Field(default=None, description="Of these; the rest is free space")
    quota: Count | None = Field(default=None, description="The most its database may have")
    alarm: Line | None = Field(default=None, description='Of the cluster, as NOSPACE; "": none')
    sync_ms: Real | None = Field(
        default=None, description="Mean time of a write to its disk while the probe looked"
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
    host: Line = Field(default="", description="Where it was placed; empty: nowhere")
    kind: Line = Field(description="The reason in a word, as ImagePullBackOff")
    said: Line = Field(default="", description="The reason in the words of who reported it")
    image: Line = Field(default="", description="Of the container that does not run")
    age_s: Count | None = None


class Workload(Model):
    """A Deployment, DaemonSet, StatefulSet or static pod of a namespace that the cluster itself needs."""

    name: Line
    namespace: Line
    kind: Line
    wanted: Count
    ready: Count
    hosts: tuple[Line, ...] = Field(default=(), description="Of the pods that are ready")
    why: Line = Field(default="", description="Why fewer pods were made than wanted")
    pods: tuple[PlatformPod, ...] = Field(default=(), description="Those that are not ready")


class Kubernetes(Model):
    """kubelet of this host; on a control plane also answers of the API. None: unavailable."""

    version: Line = Field(default="", description="Of kubelet, as v1.35.2")
    kubelet: Line = Field(default="", description='"ok" or what kubelet says of itself')
    services: dict[Line, Line] = Field(
        default_factory=dict, description='"ok" or what they say, by name, as kube-proxy'
    )
    dns: Line = Field(default="", description='"ok", or why no service name resolves from here')
    api: Line | None = Field(default=None, description='"ok" or what the API of this host says')
    stopped: bool = Field(
        default=False, description="The control plane, for a restore of etcd that is not through"
    )
    nodes: tuple[KubernetesNode, ...] | None = None
    workloads: tuple[Workload, ...] | None = None
    images_gone: tuple[Line, ...] | None = Field(
        default=None, description="Imported from the offline source, and no longer there"
    )
    gives: dict[Line, Number] | None = Field(
        default=None,
        description="nvidia.com/... that the API may give out of this node, as gpu or mig-1g.10gb",
    )
    plugins: tuple[ReleasePod, ...] | None = Field(
        default=None,
        description="Pods of our charts' device plugins on this node, where it gives out no GPU",
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
    images: tuple[Line, ...] = Field(description="In the archives of the offline source")


class Ground(Model):
    """Swap, modules, ports, routes and clusters. Of a host that is in the site's cluster only the first two are read."""

    ours: bool = Field(description="Stage kubernetes has begun here")
    swaps: dict[Line, Count] = Field(description="Bytes in use, by device or file")
    modules: dict[Line, Line] = Field(
        description='"loaded", "there" where it could be, "" where it cannot'
    )
    listeners: dict[Line, Line] = Field(
        default_factory=dict, description="Program by port, of those a cluster needs"
    )
    routes: tuple[Route, ...] = Field(default=(), description="Network and interface")
    clusters: tuple[Line, ...] = Field(default=(), description="What a cluster has left here")

    def ways_to(self, network: IPv4Network) -> list[str]:
        """Routes to a part of a network."""
        return [route for route in self.routes if network.overlaps(IPv4Network(route.split()[0]))]
