"""The site's section ``kubernetes``: one cluster over its control and GPU hosts, or an external cluster."""

from ipaddress import IPv4Address, IPv4Network
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from appliance.models.base import Model
from appliance.models.text_types import (
    ABSOLUTE_PATH,
    CERTIFICATES,
    CHART_VERSION,
    PATH_LENGTH,
    PORT,
    SHA256,
    Few,
    File,
    Fingerprint,
    KeyFile,
    MirrorUrl,
    NamedFew,
)
from appliance.models.watch import WatchOptions

RELEASE = r"^1\.[0-9]{1,2}(\.[0-9]{1,2})?$"
CONTAINERD = r"^[0-9]{1,2}\.[0-9]{1,2}(\.[0-9]{1,2})?$"
REGISTRY = rf"^[a-z0-9]([a-z0-9.-]{{0,251}}[a-z0-9])?(:{PORT})?$"
IMAGE = r"^[a-z0-9][a-z0-9._:/-]*(:[A-Za-z0-9._-]+)?(@sha256:[0-9a-f]{64})?$"
PINNED_IMAGE = r"^[a-z0-9][a-z0-9._:/-]*(:[A-Za-z0-9._-]+)?@sha256:[0-9a-f]{64}$"

ISSUER = (
    rf"^https://[A-Za-z0-9]([A-Za-z0-9.-]{{0,251}}[A-Za-z0-9])?(:{PORT})?(/[A-Za-z0-9._~/-]*)?$"
)
CLIENT = r"^[A-Za-z0-9][A-Za-z0-9._:/@-]{0,252}$"
CLAIM = r"^[A-Za-z_][A-Za-z0-9_-]{0,62}$"
PREFIX = r"^[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?[:/#-]$"

Registry = Annotated[str, Field(pattern=REGISTRY)]
SourcePart = Literal["packages", "images", "charts", "manifests"]


KUBELETS_OWN = 110
"""Pods of a host by kubelet's own default (KubeletConfiguration v1beta1, maxPods)."""


class KubeletOptions(Model):
    """How GPU hosts allocate processors, memory and places to pods."""

    cpu_manager: Literal["static", "none"] = Field(
        default="static", description="static: exclusive processors for pods that request them"
    )
    memory_manager: Literal["static", "none"] = Field(
        default="none",
        description="static: memory of the same NUMA node; Kubernetes 1.22 and newer",
    )
    topology: Literal["none", "best-effort", "restricted", "single-numa-node"] = Field(
        default="best-effort",
        description="How strictly GPU, processors and memory share a NUMA node",
    )
    system_cpus: int = Field(default=2, ge=1, le=64, description="Processors reserved from pods")
    system_memory_mib: int = Field(
        default=4096, ge=256, le=1_048_576, description="Memory reserved from pods, MiB per host"
    )
    max_pods: int = Field(
        default=250,
        ge=KUBELETS_OWN,
        le=500,
        description="Maximum number of pods per host; more than 250 only with calico",
    )


class EtcdBackup(Model):
    """Backups of etcd, on every control host."""

    at: str = Field(
        default="/var/backups/appliance/etcd",
        pattern=ABSOLUTE_PATH,
        max_length=PATH_LENGTH,
        description="Folder on the host",
    )
    every_hours: int = Field(default=6, ge=1, le=168, description="Hours between backups")
    keep: int = Field(default=28, ge=2, le=1000, description="Number of backups to keep")


class OidcIssuer(Model):
    """An OpenID Connect provider that the API accepts."""

    issuer: str = Field(
        pattern=ISSUER,
        max_length=1000,
        description="Its URL, equal to iss in its tokens; control hosts fetch its keys there",
    )
    client_id: str = Field(
        pattern=CLIENT,
        description="Required audience (aud) of tokens: kubectl's client at the provider",
    )
    username: str = Field(
        default="email",
        pattern=CLAIM,
        description="Claim with the user name, as in projects[].users; an email must be verified",
    )
    groups: str = Field(
        default="groups",
        pattern=CLAIM,
        description="Claim with the groups, as in projects[].groups",
    )
    prefix: str | None = Field(
        default=None,
        pattern=PREFIX,
        description="Prefix of its users and groups, so that names of two issuers never collide",
    )
    ca: str | None = Field(
        default=None,
        pattern=CERTIFICATES,
        max_length=16_000,
        description="CA certificates, PEM; default: those in the API server's image",
    )


class NodeWatchOptions(WatchOptions):
    """When GPU hosts that are unfit for pods cordon themselves, and what becomes of their pods."""

    end_pods_after_minutes: int | None = Field(
        default=1440,
        ge=1,
        le=100_800,
        description="Minutes after which pods with GPUs on a host that cordoned itself, and is still unfit, are ended; "
        "null: they run to their end",
    )


class KubernetesOptions(Model):
    """Stage kubernetes. The control plane runs on the control hosts: one, or three with ``address``."""

    external: File | None = Field(
        default=None,
        description="Kubeconfig of an existing cluster; path relative to the site's folder",
    )
    version: str | None = Field(
        default=None, pattern=RELEASE, description="Release, such as 1.35; default: the profile's"
    )
    containerd: str | None = Field(
        default=None,
        pattern=CONTAINERD,
        description="Release of containerd, such as 2.3; default: the profile's",
    )
    address: IPv4Address | None = Field(
        default=None, description="Virtual address of three control planes, in network management"
    )
    address_image: str | None = Field(
        default=None,
        pattern=PINNED_IMAGE,
        max_length=512,
        description="Image of kube-vip, which announces address, with its digest; default: the one in source",
    )
    pod_network: IPv4Network = Field(
        default=IPv4Network("10.244.0.0/16"),
        # Strict JSON has no type for networks but text.
        validate_default=False,
        description="Network of pods, of this cluster only",
    )
    service_network: IPv4Network = Field(
        default=IPv4Network("10.96.0.0/16"),
        # Strict JSON has no type for networks but text.
        validate_default=False,
        description="Network of services",
    )
    network: Literal["calico", "cilium", "bridge"] = Field(
        default="calico",
        description="Pod network; bridge: plain routes in one Ethernet segment, without NetworkPolicy",
    )
    network_policies: Literal["none", "supplied"] = Field(
        default="none",
        description="Enforcement of NetworkPolicies with bridge; supplied: a manifest in source, such as kube-router's",
    )
    network_version: str | None = Field(
        default=None,
        pattern=CHART_VERSION,
        description="Version of the chart of calico or cilium; default: v3.32.1, 1.20.1",
    )
    dns: Literal["coredns", "supplied"] = Field(
        default="coredns", description="supplied: a manifest in source"
    )
    source: str | None = Field(
        default=None,
        pattern=ABSOLUTE_PATH,
        max_length=PATH_LENGTH,
        description="Folder on the hosts with the files for a site without Internet",
    )
    source_parts: Few[SourcePart] = Field(
        default=("packages", "images", "charts", "manifests"),
        description="What source contains, charts with Helm's program; everything else is downloaded from its publisher",
    )
    trial_image: str | None = Field(
        default=None,
        pattern=IMAGE,
        max_length=512,
        description="Image of pods that test the scheduler, wait, or measure hosts; needs sh and chroot; with its digest, or with its tag in an offline source; default: busybox 1.36.1 by its digest",
    )
    device_plugin: Literal["operator", "plugin", "own"] = Field(
        default="operator",
        description="Device plugin for GPUs; operator: the GPU Operator; plugin: NVIDIA's device plugin without the operator; own: a device plugin that the site installs itself",
    )
    registry_mirrors: NamedFew[Registry, MirrorUrl] = Field(
        default_factory=dict, description="Registry host to the URL of its mirror"
    )
    oidc: Few[OidcIssuer] = Field(
        default=(),
        description="Identity providers for members of projects, in addition to certificates (1.30 and newer)",
    )
    kubelet: KubeletOptions = Field(
        default=KubeletOptions.model_construct(), description="Policies of GPU hosts"
    )
    etcd_backup: EtcdBackup = Field(
        default=EtcdBackup.model_construct(), description="Backups of etcd"
    )
    watch: NodeWatchOptions = Field(
        default=NodeWatchOptions.model_construct(), description="When hosts cordon themselves"
    )

    def offline(self, part: SourcePart) -> str:
        """The folder that contains ``part``; "" if it is downloaded from its publisher."""
        return self.source if self.source and part in self.source_parts else ""

    @property
    def enforces_policies(self) -> bool:
        """Whether the pod network enforces NetworkPolicies; assumed for an external cluster, where it is unknown."""
        bridged = self.external is None and self.network == "bridge"
        return not bridged or self.network_policies == "supplied"

    @model_validator(mode="after")
    def _external_is_alone(self) -> Self:
        if self.external is not None and self.model_fields_set - {"external"}:
            raise ValueError("external selects an existing cluster: remove all other keys")
        return self


class ContainerdRepository(Model):
    """The source of containerd on a site whose ``kubernetes.source`` contains no packages."""

    source: Literal["docker", "distribution"] = Field(
        default="docker",
        description="Docker's repository, which has containerd 2.x, or the distribution's own package",
    )
    mirror: MirrorUrl | None = Field(
        default=None,
        description="Mirror of Docker's repository for the hosts' system; default: Docker's own",
    )
    key: KeyFile | None = Field(
        default=None, description="File of the signing key in the mirror; default: Docker's own"
    )
    fingerprint: Fingerprint | None = Field(
        default=None,
        description="Fingerprint of the signing key, 40 hexadecimal digits; default: Docker's own",
    )


class KubernetesRepository(Model):
    """The source of kubeadm, kubelet and kubectl on a site whose ``kubernetes.source`` contains no packages."""

    source: Literal["kubernetes", "hosts"] = Field(
        default="kubernetes",
        description="The project's repositories, one per minor release, or the hosts' own sources",
    )
    mirror: MirrorUrl | None = Field(
        default=None,
        description="Mirror of the project's repositories, containing v1.35/deb and v1.35/rpm; default: the project's own",
    )
    key: KeyFile | None = Field(
        default=None,
        description="File of the signing key in the mirror; default: the project's own",
    )
    fingerprint: Fingerprint | None = Field(
        default=None,
        description="Fingerprint of the signing key, 40 hexadecimal digits; default: the project's own",
    )


class HelmProgram(Model):
    """Helm 3.14 or newer, or 4, on a site whose ``kubernetes.source`` contains no charts."""

    url: MirrorUrl = Field(description="The publisher's archive for linux-amd64, or a copy of it")
    sha256: str = Field(
        pattern=SHA256, description="Digest of the archive, as printed by sha256sum"
    )


HELM = HelmProgram(
    url="https://get.helm.sh/helm-v3.21.4-linux-amd64.tar.gz",
    sha256="61f88ab166748cb19604d7884cb100ae9ccb13804ddeb98e08af167eacbb6a14",
)
"""The newest Helm 3 known (2026-11), with the digest by which two projects pin it."""


WORDS = {
    PINNED_IMAGE: (
        "an image with its digest",
        "such as registry.example.com/kube-vip:v0.8.9@sha256: and 64 hexadecimal digits",
    ),
    IMAGE: (
        "an image",
        "registry, name and tag or digest, such as registry.example.com/team/busybox:1.36.1",
    ),
    RELEASE: ("a release of Kubernetes", "such as 1.35 or 1.35.2"),
    CONTAINERD: ("a release of containerd", "as 2.3"),
    ISSUER: ("the URL of an issuer", "such as https://sso.example.com/realms/hpc, without ? and #"),
    CLIENT: ("a client's name", "such as kubernetes"),
    CLAIM: ("a claim", "such as email, preferred_username or groups"),
    PREFIX: ("a prefix", "such as sso:, ending with a punctuation mark"),
    REGISTRY: (
        "a registry",
        "its host name and port, such as registry.example.com:5000",
    ),
}
"""For each pattern, the kind of text and an example."""
