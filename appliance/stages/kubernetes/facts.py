"""What a host of a Kubernetes cluster says of itself, and a control plane of the cluster."""

from ipaddress import IPv4Network

from pydantic import Field

from appliance.models.base import Numerous
from appliance.models.fact_types import Count, Line, NodeName, Number, Real, Route


class KubernetesNode(Numerous):
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


class ExternalCluster(Numerous):
    """A cluster of somebody else's (``kubernetes.external``), as its API answers whoever runs the program."""

    api: Line = Field(description='"ok" or why it did not answer')
    fix: Line = Field(default="", description="What to do where it did not")
    nodes: tuple[KubernetesNode, ...] | None = None


class EtcdMember(Numerous):
    """The member of etcd on a control host, as its metrics have it. None: not to be had."""

    bytes: Count | None = Field(default=None, description="Of its database")
    in_use: Count | None = Field(default=None, description="Of these; the rest is free space")
    quota: Count | None = Field(default=None, description="The most its database may have")
    alarm: Line | None = Field(default=None, description='Of the cluster, as NOSPACE; "": none')


class Kubernetes(Numerous):
    """kubelet of this host; on a control plane what the API answers. None: not to be had."""

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
    etcd: EtcdMember | None = Field(default=None, description="Of a control host")
    certificates: dict[Line, Real] = Field(
        default_factory=dict, description="Days left, by file; negative: expired"
    )
    backups: Number | None = Field(default=None, description="Backups of etcd on this host")
    backup_age_h: Real | None = Field(default=None, description="Hours since the newest")


class Ground(Numerous):
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
