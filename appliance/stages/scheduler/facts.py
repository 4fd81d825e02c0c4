"""Facts of a control plane about the scheduler: Helm's releases, their pods and objects."""

from pydantic import Field

from appliance.models.base import Model
from appliance.models.fact_types import Line, NodeName, Number, Real
from appliance.stages.kubernetes.facts import ReleasePod, Workload


class HelmRelease(Model):
    """A release as Helm's newest record of it has it."""

    name: Line
    namespace: Line
    revision: Number
    status: Line = Field(description="deployed, failed, pending-upgrade, ...")
    chart: Line = ""
    version: Line = Field(default="", description="Of the chart, as v0.17.0")


class NetworkPolicy(Model):
    """A NetworkPolicy; ``release``: of Helm, that brought it."""

    name: Line
    namespace: Line
    release: Line = ""
    admits: bool = Field(description="It allows traffic from some sources")
    digest: Line = Field(description="sha256 of its specification's canonical JSON")


class PolicyEnforcer(Model):
    """A DaemonSet of a pod network that enforces NetworkPolicies on the hosts where it is ready."""

    name: Line
    namespace: Line
    ready: Number
    wanted: Number
    mode: Line = Field(
        default="", description="Cilium's enable-policy; never: policies are not enforced"
    )


class PodImage(Model):
    """An image that containers of a namespace's pods run, on these hosts."""

    namespace: Line
    image: Line = Field(description="Image as requested by the pods")
    id: Line = Field(description="imageID in their status: the running image")
    hosts: tuple[Line, ...]


class SharedTree(Model):
    """A claim of the appliance's in a project's namespace, and the volume it names."""

    name: Line
    namespace: Line
    phase: Line = Field(description="Phase of the claim: Bound, Pending or Lost")
    volume: Line = Field(description="The volume's name")
    server: Line = Field(default="", description="Name of the volume; empty: none")
    path: Line = ""
    options: tuple[Line, ...] = Field(default=(), description="Of the mount")
    held: bool = Field(
        default=False,
        description="The volume is reserved for this claim, and kept if the claim is deleted",
    )


class LiveQueue(Model):
    """A queue of KAI as the API has it."""

    name: Line
    parent: Line = ""
    gpu_quota: Real = Field(description="GPUs; -1: unbounded")
    gpu_limit: Real = Field(description="GPUs; -1: none")


class SchedulerFacts(Model):
    """Answer of a control plane's API. None: unavailable."""

    releases: tuple[HelmRelease, ...] | None = None
    pods: tuple[ReleasePod, ...] | None = None
    rdma: dict[NodeName, Number] | None = Field(
        default=None, description="Allocatable rdma/fabric, by node"
    )
    default_classes: tuple[str, ...] | None = Field(
        default=None, description="Default StorageClasses"
    )
    policies: tuple[NetworkPolicy, ...] | None = Field(
        default=None, description="NetworkPolicies in namespaces of releases"
    )
    enforcers: tuple[PolicyEnforcer, ...] | None = Field(
        default=None, description="Components that enforce them; none: no known one"
    )
    images: tuple[PodImage, ...] | None = Field(
        default=None, description="Images of pods in kube-system and in namespaces of releases"
    )
    trees: tuple[SharedTree, ...] | None = Field(
        default=None, description="Shared trees in the cluster"
    )
    stopped: tuple[Line, ...] | None = Field(
        default=None, description="Deployments of releases with 0 replicas, as namespace/name"
    )
    lacking: tuple[Workload, ...] | None = Field(
        default=None, description="Those of releases whose pods cannot be created"
    )
    queues: tuple[LiveQueue, ...] | None = Field(default=None, description="Of KAI")
    submissions: dict[Line, Line] | None = Field(
        default=None,
        description="By namespace, why a member may not submit a pod there; empty: the member may",
    )
