"""The site's queues: guaranteed shares of the GPUs, and the scheduler that enforces them."""

from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from appliance.models.base import Model
from appliance.models.text_types import (
    CHART_VERSION,
    PORT,
    AbsolutePath,
    Duration,
    Few,
    File,
    HostName,
    Many,
    PerHost,
)

DNS_LABEL = r"^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$"
NODE_LABEL = (
    r"^([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$"
)
STORAGE = r"^[1-9][0-9]{0,6}(Mi|Gi|Ti|Pi)$"
MIG_PROFILE = r"^[1-7]g\.[0-9]{1,3}gb$"
DOMAIN = r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?){1,16}$"
RUNAI_URL = rf"^https://[A-Za-z0-9]([A-Za-z0-9.-]{{0,251}}[A-Za-z0-9])?(:{PORT})?/?$"
CLIENT = r"^[A-Za-z0-9][A-Za-z0-9._@-]{0,127}$"
RUNAI_ROLE = r"^[A-Za-z0-9][A-Za-z0-9 _-]{0,62}$"
"""Names are compared by letters and digits, so that a role with another character in its name can be written, too."""
HTTPS = 443
MAIL = r"^[A-Za-z0-9][A-Za-z0-9._%+-]{0,63}@[A-Za-z0-9]([A-Za-z0-9.-]{0,186}[A-Za-z0-9])?$"
NAMESPACE = r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"
SUBJECT = r"^/?[A-Za-z0-9][A-Za-z0-9@._:/+-]{0,251}$"
"""Keycloak names groups by their path, such as /vision; mail addresses may contain a +."""

BELOW = r"^[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*$"
"""A path within a folder; no part begins with a dot, so none leads outside."""
TREE = r"^[a-z]([a-z0-9-]{0,38}[a-z0-9])?$"

MOST = 1_000_000_000
"""Far above all GPUs, cores and GB of one cluster."""
PROJECTS = 2_000
"""Projects of one site. Above the 1,000 of other lists, because an organization in Run:ai may have more."""
DEFAULT_POOL = "default"
"""The node pool of all GPU hosts that no other pool lists."""

Label = Annotated[str, Field(pattern=DNS_LABEL)]
NodeLabel = Annotated[str, Field(pattern=NODE_LABEL)]
Namespace = Annotated[str, Field(pattern=NAMESPACE)]
Subject = Annotated[str, Field(pattern=SUBJECT)]


class Amount(Model):
    """A share of one resource: the guarantee, the limit, and the weight for idle capacity."""

    quota: float = Field(default=0, ge=0, le=MOST, description="Guaranteed")
    limit: float | None = Field(
        default=None,
        ge=0,
        le=MOST,
        description="Upper limit; default: all idle capacity (build: the quota)",
    )
    weight: float = Field(
        default=1, ge=0, le=MOST, description="Weight among siblings for idle capacity"
    )


class Resources(Model):
    """The share of a queue in GPUs (devices), CPU (cores) and memory (GB, 10^9 bytes)."""

    gpu: Amount = Field(
        default=Amount.model_construct(), description="GPUs; fractions if they are shared"
    )
    cpu: Amount | None = Field(
        default=None, description="Cores; default: those of its guaranteed GPUs"
    )
    memory: Amount | None = Field(
        default=None, description="GB; default: that of its guaranteed GPUs"
    )


class Share(Resources):
    """The share of a department or project in one node pool."""

    pool: Label = Field(default=DEFAULT_POOL, description="Node pool")


class NodePool(Model):
    """Hosts that are managed separately from the others."""

    name: Label = Field(
        description='Name; "default" is reserved for hosts that no other pool lists'
    )
    hosts: PerHost[HostName] = Field(min_length=1, description="GPU hosts of this site")
    placement: Literal["binpack", "spread"] = Field(
        default="binpack", description="Fill GPUs and hosts first, or spread the work"
    )
    mig: Literal["none", "single", "mixed"] = Field(
        default="none", description="GPUs are partitioned by MIG: strategy of the device plugin"
    )
    mig_on_demand: Few[Annotated[str, Field(pattern=MIG_PROFILE)]] = Field(
        default=(),
        description="MIG profiles that work may request; unused GPUs without a layout in section mig are partitioned on demand",
    )
    mig_whole: int = Field(
        default=0,
        ge=0,
        le=64,
        description="Number of GPUs per host that mig_on_demand never partitions",
    )
    mig_unused: Duration = Field(
        default="15m",
        description="Remove an on-demand instance after it was unused for this time",
    )


class Department(Model):
    """A group of projects with a common share. Default for a pool: the sum of its projects."""

    name: Label = Field(description="Name")
    parent: Label | None = Field(default=None, description="Parent department (kind kai)")
    priority: int = Field(default=100, ge=0, le=1000, description="Higher is served first")
    shares: Many[Share] = Field(default=(), description="Its share of each node pool")


class Queue(Resources):
    """A queue of a project: interactive (build), batch (train) or serving (inference)."""

    name: Label = Field(description="Name within the project, such as build or train")
    work: Literal["build", "train", "inference"] = Field(
        default="train",
        description="build: interactive, within quota, never evicted; train: may exceed its quota, evictable",
    )
    pool: Label = Field(default=DEFAULT_POOL, description="Node pool")
    priority: int = Field(default=100, ge=0, le=1000, description="Higher is served first")
    priority_class: Label | None = Field(
        default=None,
        description="Priority class of its work; default: the one named after the kind of work",
    )
    fraction: float | None = Field(
        default=None, gt=0, lt=1, description="Default fraction of a GPU for a workspace"
    )
    time_limit: Duration | None = Field(
        default=None, description="Interactive work ends after this time, such as 8h"
    )
    idle_limit: Duration | None = Field(
        default=None, description="Work ends after its GPUs were idle for this time, such as 30m"
    )
    preempt_min_runtime: Duration | None = Field(
        default=None, description="Minimum runtime before its own queue may evict it"
    )
    reclaim_min_runtime: Duration | None = Field(
        default=None, description="Minimum runtime before another queue may evict it"
    )


class Tree(Model):
    """Files of an export that a project's pods mount by a claim, each with the identity of the pod's author."""

    name: Annotated[str, Field(pattern=TREE)] = Field(
        description="Name; its claim in the project's namespace is appliance-tree-NAME"
    )
    export: AbsolutePath = Field(description="Path of an export of storage, own or external")
    path: Annotated[str, Field(pattern=BELOW, max_length=200)] | None = Field(
        default=None, description="Folder within the export; default: all of it"
    )
    read_only: bool = Field(default=False, description="Read-only for pods")


class Project(Model):
    """A team: a namespace, its queues, and its members."""

    name: Label = Field(description="Name; its namespace is kai-NAME")
    department: Label | None = Field(default=None, description="Its department; default: none")
    priority: int = Field(default=100, ge=0, le=1000, description="Higher is served first")
    queues: Many[Queue] = Field(min_length=1, description="Its queues")
    shares: Many[Share] = Field(
        default=(), description="Its share of each pool; default: the sum of its queues"
    )
    users: Many[Subject] = Field(default=(), description="Users who may work in it")
    groups: Many[Subject] = Field(default=(), description="Groups who may work in it")
    reached_from: Many[Namespace] = Field(
        default=(),
        description="Namespaces whose pods may reach the project's pods, in addition to its own and operators",
    )
    open_to_cluster: bool = Field(
        default=False, description="Allow pods of every namespace to reach the project's pods"
    )
    pods: int = Field(default=500, ge=1, le=100000, description="Maximum number of pods")
    storage: str = Field(
        default="50Ti",
        pattern=STORAGE,
        description="Maximum size of all its volume claims together",
    )
    pod_security: Literal["restricted", "baseline", "privileged"] = Field(
        default="baseline",
        description="Pod security standard; RDMA in pods (IPC_LOCK) needs privileged",
    )
    trees: Few[Tree] = Field(
        default=(),
        description="Shared trees of storage that its pods mount; members with a number in base.users run such pods under it",
    )


class Priority(Model):
    """A priority class in addition to train 50, build-preemptible 75, build 100 and inference 125."""

    name: Label = Field(description="Name")
    value: int = Field(ge=1, le=1000000, description="From 100: never evicted, within quota only")


class Topology(Model):
    """The topology, for work that must be placed close together."""

    source: Literal["fabric", "labels", "none"] = Field(
        default="fabric", description="fabric: from its cables; labels: levels are node labels"
    )
    levels: tuple[NodeLabel, ...] = Field(
        default=(), max_length=16, description="Node labels, widest first (source labels)"
    )


class RunaiInference(Model):
    """Domain of inference services, served by Knative."""

    domain: Annotated[str, Field(pattern=DOMAIN)] = Field(
        description="Domain; services have names below it"
    )
    certificate: File = Field(
        description="Certificate chain for *.DOMAIN in PEM, relative to the site's folder; its key is secrets.runai_inference_tls_key"
    )


class RunaiInstall(Model):
    """Installation of control plane and cluster engine, and their registration."""

    version: str | None = Field(
        default=None,
        pattern=CHART_VERSION,
        description="Version of both charts; default: the one in appliance/stages/scheduler/charts.yml",
    )
    admin: Annotated[str, Field(pattern=MAIL)] = Field(
        description="Mail address of the first administrator; the password is secrets.runai_admin_password"
    )
    certificate: File = Field(
        description="Certificate chain for domain and *.domain in PEM, relative to the site's folder; its key is secrets.runai_tls_key"
    )
    port: int = Field(
        default=443, ge=1, le=65535, description="Port at which users reach the ingress"
    )
    ingress_class: Label = Field(default="haproxy", description="Class of its Ingress resources")
    storage_class: Label | None = Field(
        default=None,
        description="StorageClass of its databases; default: the cluster's default",
    )
    subdomains: bool = Field(
        default=True, description="Workspaces get host names below domain; false: paths"
    )
    inference: RunaiInference | None = Field(
        default=None, description="Inference services; default: none"
    )


class RunaiOptions(Model):
    """NVIDIA Run:ai: open source, or the same with NVIDIA's support."""

    edition: Literal["open", "entitled"] = Field(
        default="open", description="entitled: with secrets.ngc_api_key"
    )
    domain: Annotated[str, Field(pattern=DOMAIN)] | None = Field(
        default=None, description="Domain name of its control plane; default: that of url"
    )
    url: Annotated[str, Field(pattern=RUNAI_URL, max_length=300)] | None = Field(
        default=None, description="Address of its control plane; default: https://DOMAIN"
    )
    ca: File | None = Field(
        default=None,
        description="CA certificates (PEM) of the control plane, relative to the site's folder; default: those of this machine",
    )
    client: Annotated[str, Field(pattern=CLIENT)] | None = Field(
        default=None,
        description="Client ID of a service account in Run:ai, for queue plan and apply; with secrets.runai_client_secret",
    )
    cluster: Annotated[str, Field(pattern=CLIENT)] | None = Field(
        default=None, description="Name of the cluster in Run:ai; default: the site's name"
    )
    role: Annotated[str, Field(pattern=RUNAI_ROLE)] = Field(
        default="ai-practitioner",
        description="Role in Run:ai of the users and groups of a project",
    )
    install: RunaiInstall | None = Field(
        default=None,
        description="Install Run:ai on this site's cluster; default: it is not installed",
    )

    @model_validator(mode="after")
    def _somewhere(self) -> Self:
        if self.domain is None and self.url is None:
            raise ValueError("has no address: give domain or url")
        if self.domain is None and self.install is not None:
            raise ValueError("has install without domain: certificates and Ingress are made for it")
        return self

    @property
    def address(self) -> str:
        """The base URL of the control plane."""
        port = self.install.port if self.install else HTTPS
        by_domain = f"https://{self.domain}" + ("" if port == HTTPS else f":{port}")
        return (self.url or by_domain).rstrip("/")

    @property
    def host(self) -> str:
        """The host name of the control plane."""
        return self.domain or urlsplit(self.address).hostname or ""


class SchedulerOptions(Model):
    """Stage scheduler: one scheduler, and the shares of the GPUs."""

    kind: Literal["kai", "kai-resource-management", "runai"] = Field(
        default="kai", description="Exactly one scheduler"
    )
    runai: RunaiOptions | None = Field(default=None, description="Only with kind runai")
    sharing: Literal["none", "unenforced", "hami", "nvidia"] = Field(
        default="none",
        description="Fractions of a GPU: none; unenforced: memory limits are not enforced; nvidia: enforced by NVIDIA's fractions; hami is refused, because nothing installed here enforces it",
    )
    unassigned: Literal["refuse", "idle"] = Field(
        default="refuse",
        description="Work without a queue: waits forever, or uses idle capacity",
    )
    rdma: Literal["shared", "host"] = Field(
        default="shared",
        description="How pods reach the fabric: adapters shared by pods that request rdma/fabric, or only pods in the host's network",
    )
    node_pools: Many[NodePool] = Field(default=(), description="Hosts that are managed separately")
    departments: Many[Department] = Field(default=(), description="Groups of projects")
    projects: Annotated[tuple[Project, ...], Field(max_length=PROJECTS)] = Field(
        default=(), description="Teams"
    )
    priorities: Many[Priority] = Field(default=(), description="Additional priority classes")
    topology: Topology = Field(
        default=Topology.model_construct(), description="Topology for placement"
    )
    admission: Literal["deny", "warn", "audit"] = Field(
        default="deny",
        description="Work that violates its project's rules: is refused, or allowed with a warning to its author, or only recorded in the audit log",
    )
    small_pods: Literal["raise", "refuse", "allow"] = Field(
        default="raise",
        description="Pods that request less CPU than their part of a host: the API server raises the request (Kubernetes 1.34), or refuses or allows the pods",
    )
    tree_groups: Literal["strict", "unenforced"] = Field(
        default="strict",
        description="Groups of a process that mounts a tree: only the person's own (containerd 2.0 and Kubernetes 1.33), or also those in /etc/group of its image",
    )
    limits: Literal["enforce", "report"] = Field(
        default="enforce",
        description="Work over its time or idle limit: is ended, or only reported (kinds kai and kai-resource-management)",
    )

    @model_validator(mode="after")
    def _one_scheduler(self) -> Self:
        if (self.kind == "runai") != (self.runai is not None):
            raise ValueError(
                "kind and section runai do not match: give runai: {domain: ...} with kind: runai, and only there"
            )
        return self


WORDS = {
    DNS_LABEL: (
        "a DNS label",
        'a lower-case letter, then letters, digits and "-", at most 63',
    ),
    NODE_LABEL: (
        "a node label",
        "such as topology.kubernetes.io/zone or kubernetes.io/hostname",
    ),
    STORAGE: ("a size", "such as 500Gi or 50Ti"),
    MIG_PROFILE: ("a MIG profile", "such as 1g.10gb"),
    DOMAIN: ("a domain name", "such as runai.example.com"),
    RUNAI_URL: ("the address of a control plane", "such as https://runai.example.com"),
    CLIENT: ("a client ID or name", "such as appliance"),
    RUNAI_ROLE: ("a role of Run:ai", "such as ai-practitioner"),
    MAIL: ("a mail address", "such as admin@example.com"),
    NAMESPACE: ("a namespace", "such as ingress-nginx or monitoring"),
    SUBJECT: ("a user or group", "such as alice@example.com, vision-team or /vision"),
    TREE: ("a name of a tree", 'a lower-case letter, then letters, digits and "-", at most 40'),
}
"""For each pattern, the kind of text and an example."""
