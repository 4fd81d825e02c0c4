"""What a host of a Kubernetes cluster says of itself, and a control plane of the cluster."""

from pydantic import Field

from appliance.models.base import Model


class KubernetesNode(Model):
    """A node as the API has it."""

    name: str
    ready: bool
    reason: str = Field(default="", description="Why it is not ready")
    version: str = Field(default="", description="Of its kubelet, as v1.35.2")
    cordoned: bool = False
    cordoned_for: str = Field(default="", description="What the appliance cordoned it for")
    owner: str = Field(default="kubernetes", description="Of its taint appliance/owner")
    tiers: dict[str, str] = Field(
        default_factory=dict, description="Its labels of the fabric's tiers"
    )


class BroughtCluster(Model):
    """A cluster of somebody else's (``kubernetes.external``), as its API answers whoever runs the program."""

    api: str = Field(description='"ok" or why it did not answer')
    fix: str = Field(default="", description="What to do where it did not")
    nodes: tuple[KubernetesNode, ...] | None = None


class Kubernetes(Model):
    """kubelet of this host; on a control plane what the API answers. None: not to be had."""

    version: str = Field(default="", description="Of kubelet, as v1.35.2")
    kubelet: str = Field(default="", description='"ok" or what kubelet says of itself')
    services: dict[str, str] = Field(
        default_factory=dict, description='"ok" or what they say, by name, as kube-proxy'
    )
    dns: str = Field(default="", description='"ok", or why no service name resolves from here')
    api: str | None = Field(default=None, description='"ok" or what the API of this host says')
    nodes: tuple[KubernetesNode, ...] | None = None
    certificates: dict[str, float] = Field(
        default_factory=dict, description="Days left, by file; negative: expired"
    )
    backups: int | None = Field(default=None, description="Backups of etcd on this host")
    backup_age_h: float | None = Field(default=None, description="Hours since the newest")
