"""The site's queues: who is guaranteed which part of the GPUs, and by which scheduler."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from appliance.models.base import Model
from appliance.models.texts import AbsolutePath, Duration, Few, HostName, Many, PerHost

DNS_LABEL = r"^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$"
NODE_LABEL = (
    r"^([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$"
)
STORAGE = r"^[1-9][0-9]{0,6}(Mi|Gi|Ti|Pi)$"
MIG_PROFILE = r"^[1-7]g\.[0-9]{1,3}gb$"
DOMAIN = r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?){1,16}$"
NAMESPACE = r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"
SUBJECT = r"^/?[A-Za-z0-9][A-Za-z0-9@._:/+-]{0,251}$"
"""Keycloak names groups by their path, as /vision; mail addresses may have a + in them."""

BELOW = r"^[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*$"
"""A path within a folder; no part of it begins with a dot, so none leads out."""
TREE = r"^[a-z]([a-z0-9-]{0,38}[a-z0-9])?$"

MOST = 1_000_000_000
"""Far above all GPUs, cores and GB of one cluster."""
DEFAULT_POOL = "default"
"""The node pool of all GPU hosts that no other pool names."""

Label = Annotated[str, Field(pattern=DNS_LABEL)]
NodeLabel = Annotated[str, Field(pattern=NODE_LABEL)]
Namespace = Annotated[str, Field(pattern=NAMESPACE)]
Subject = Annotated[str, Field(pattern=SUBJECT)]


class Amount(Model):
    """A part of one resource: guaranteed, at most, and how much of what is idle."""

    quota: float = Field(default=0, ge=0, le=MOST, description="Guaranteed")
    limit: float | None = Field(
        default=None, ge=0, le=MOST, description="Never more; none: what is idle (build: the quota)"
    )
    weight: float = Field(
        default=1, ge=0, le=MOST, description="Share of what is idle, against its siblings'"
    )


class Resources(Model):
    """What a queue gets of GPUs (devices), CPU (cores) and memory (GB, 10^9 bytes)."""

    gpu: Amount = Field(
        default=Amount.model_construct(), description="GPUs; parts of one where they are shared"
    )
    cpu: Amount | None = Field(default=None, description="Cores; none: not shared out")
    memory: Amount | None = Field(default=None, description="GB; none: not shared out")


class Share(Resources):
    """What a department or project gets of one node pool."""

    pool: Label = Field(default=DEFAULT_POOL, description="Node pool")


class NodePool(Model):
    """Hosts that are shared out apart from the others."""

    name: Label = Field(description='Name; "default" is what no other pool names')
    hosts: PerHost[HostName] = Field(min_length=1, description="GPU hosts of this site")
    placement: Literal["binpack", "spread"] = Field(
        default="binpack", description="Fill GPUs and hosts first, or spread the work"
    )
    mig: Literal["none", "single", "mixed"] = Field(
        default="none", description="GPUs are cut by MIG: strategy of the device plugin"
    )
    mig_on_demand: Few[Annotated[str, Field(pattern=MIG_PROFILE)]] = Field(
        default=(),
        description="MIG profiles work may ask for; GPUs that are nobody's and that section mig does not speak of are divided for it",
    )
    mig_whole: int = Field(
        default=0, ge=0, le=64, description="GPUs of each host that mig_on_demand leaves whole"
    )
    mig_unused: Duration = Field(
        default="15m",
        description="An instance made on demand goes when nobody has had it that long",
    )


class Department(Model):
    """A group of projects that shares a larger part. Without a share of a pool: what its projects have."""

    name: Label = Field(description="Name")
    parent: Label | None = Field(default=None, description="A department above it (kind kai)")
    priority: int = Field(default=100, ge=0, le=1000, description="Higher is served first")
    shares: Many[Share] = Field(default=(), description="Its part of each node pool")


class Queue(Resources):
    """Where work of a project waits: interactive (build), unattended (train) or serving (inference)."""

    name: Label = Field(description="Name within the project, as build or train")
    work: Literal["build", "train", "inference"] = Field(
        default="train",
        description="build: interactive, within quota, never evicted; train: over quota, evictable",
    )
    pool: Label = Field(default=DEFAULT_POOL, description="Node pool")
    priority: int = Field(default=100, ge=0, le=1000, description="Higher is served first")
    priority_class: Label | None = Field(
        default=None, description="Of its work; none: the one called as the kind of work"
    )
    fraction: float | None = Field(
        default=None, gt=0, lt=1, description="Part of a GPU a workspace asks for by default"
    )
    time_limit: Duration | None = Field(
        default=None, description="Interactive work ends after it, as 8h"
    )
    idle_limit: Duration | None = Field(
        default=None, description="Work whose GPUs are idle that long ends, as 30m"
    )
    preempt_min_runtime: Duration | None = Field(
        default=None, description="Runs at least that long before its own queue may evict it"
    )
    reclaim_min_runtime: Duration | None = Field(
        default=None, description="Runs at least that long before another queue may evict it"
    )


class Tree(Model):
    """Files of an export that pods of a project mount by a claim, each as the person who wrote the pod."""

    name: Annotated[str, Field(pattern=TREE)] = Field(
        description="Name; its claim in the project's namespace is appliance-tree-NAME"
    )
    export: AbsolutePath = Field(description="Path of an export of storage, own or external")
    path: Annotated[str, Field(pattern=BELOW, max_length=200)] | None = Field(
        default=None, description="Folder within the export; none: the whole of it"
    )
    read_only: bool = Field(default=False, description="Pods may read it alone")


class Project(Model):
    """A team: a namespace, its queues, and who may work there."""

    name: Label = Field(description="Name; its namespace is kai-NAME")
    department: Label | None = Field(default=None, description="Its department; none: a root")
    priority: int = Field(default=100, ge=0, le=1000, description="Higher is served first")
    queues: Many[Queue] = Field(min_length=1, description="Where its work waits")
    shares: Many[Share] = Field(
        default=(), description="Its part of each pool; none: what its queues have together"
    )
    users: Many[Subject] = Field(default=(), description="Users who may work in it")
    groups: Many[Subject] = Field(default=(), description="Groups who may work in it")
    reached_from: Many[Namespace] = Field(
        default=(),
        description="Namespaces whose pods reach those of the project, beside its own and operators",
    )
    open_to_cluster: bool = Field(
        default=False, description="Pods of every namespace reach those of the project"
    )
    pods: int = Field(default=500, ge=1, le=100000, description="Pods at one time at most")
    storage: str = Field(
        default="50Ti", pattern=STORAGE, description="All its claims of volumes together at most"
    )
    pod_security: Literal["restricted", "baseline", "privileged"] = Field(
        default="baseline",
        description="Pod security standard; RDMA in pods (IPC_LOCK) wants privileged",
    )
    trees: Few[Tree] = Field(
        default=(),
        description="Shared trees of storage that its pods mount; who has a number in base.users runs such pods under it",
    )


class Priority(Model):
    """A priority class beside train 50, build-preemptible 75, build 100 and inference 125."""

    name: Label = Field(description="Name")
    value: int = Field(
        ge=1, le=1000000, description="From 100 on: never evicted, within quota only"
    )


class Topology(Model):
    """What is near to what, for work that says how near its pods must be."""

    source: Literal["fabric", "labels", "none"] = Field(
        default="fabric", description="fabric: from its cables; labels: levels are node labels"
    )
    levels: tuple[NodeLabel, ...] = Field(
        default=(), max_length=16, description="Node labels, widest first (source labels)"
    )


class RunaiOptions(Model):
    """NVIDIA Run:ai: open source, or the same with NVIDIA's support."""

    edition: Literal["open", "entitled"] = Field(
        default="open", description="entitled: with secrets.ngc_api_key"
    )
    domain: Annotated[str, Field(pattern=DOMAIN)] = Field(description="Of its control plane")


class SchedulerOptions(Model):
    """Stage scheduler: one scheduler, and how it shares out the GPUs."""

    kind: Literal["kai", "kai-resource-management", "runai"] = Field(
        default="kai", description="Exactly one scheduler"
    )
    runai: RunaiOptions | None = Field(default=None, description="Only with kind runai")
    sharing: Literal["none", "unenforced", "hami", "nvidia"] = Field(
        default="none",
        description="Parts of a GPU: none; memory unenforced; hami is refused, for nothing here enforces it; capped by NVIDIA's fractions",
    )
    unassigned: Literal["refuse", "idle"] = Field(
        default="refuse",
        description="Work that names no queue: waits for ever, or takes what is idle",
    )
    rdma: Literal["shared", "host"] = Field(
        default="shared",
        description="How pods reach the fabric: its adapters shared by pods that ask for rdma/fabric, or only by pods in the host's network",
    )
    node_pools: Many[NodePool] = Field(default=(), description="Hosts shared out apart")
    departments: Many[Department] = Field(default=(), description="Groups of projects")
    projects: Many[Project] = Field(default=(), description="Teams")
    priorities: Many[Priority] = Field(default=(), description="More priority classes")
    topology: Topology = Field(
        default=Topology.model_construct(), description="What is near to what"
    )
    admission: Literal["deny", "warn", "audit"] = Field(
        default="deny",
        description="Work that asks for what is not its project's: is refused, or passes with a warning to its maker, or with a line in the audit log alone",
    )
    tree_groups: Literal["strict", "unenforced"] = Field(
        default="strict",
        description="Groups of a process that mounts a tree: the person's own alone (containerd 2.0 and Kubernetes 1.33), or also those that /etc/group of its image gives",
    )
    limits: Literal["enforce", "report"] = Field(
        default="enforce",
        description="Work over its time or idle limit: is ended, or only reported (kinds kai and kai-resource-management)",
    )

    @model_validator(mode="after")
    def _one_scheduler(self) -> Self:
        if (self.kind == "runai") != (self.runai is not None):
            raise ValueError(
                "kind and section runai do not go together: give runai: {domain: ...} with kind: runai, and only there"
            )
        return self


WORDS = {
    DNS_LABEL: (
        "a DNS label",
        'a lower-case letter, then letters, digits and "-", 63 at most',
    ),
    NODE_LABEL: (
        "a node label",
        "as topology.kubernetes.io/zone or kubernetes.io/hostname",
    ),
    STORAGE: ("a size", "as 500Gi or 50Ti"),
    MIG_PROFILE: ("a MIG profile", "as 1g.10gb"),
    DOMAIN: ("a domain name", "as runai.example.com"),
    NAMESPACE: ("a namespace", "as ingress-nginx or monitoring"),
    SUBJECT: ("a user or group", "as alice@example.com, vision-team or /vision"),
    TREE: ("a name of a tree", 'a lower-case letter, then letters, digits and "-", 40 at most'),
}
"""What a text of each pattern is, and how to write one."""
