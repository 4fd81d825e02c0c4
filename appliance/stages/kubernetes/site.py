"""The site's section ``kubernetes``: one cluster over its control and GPU hosts, or one that is there already."""

from ipaddress import IPv4Address, IPv4Network
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from appliance.models.base import Model
from appliance.models.texts import (
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


class KubeletOptions(Model):
    """How GPU hosts hand out processors and memory to pods."""

    cpu_manager: Literal["static", "none"] = Field(
        default="static", description="static: whole processors of their own for pods that ask so"
    )
    memory_manager: Literal["static", "none"] = Field(
        default="none",
        description="static: memory of the same NUMA node; Kubernetes 1.22 and newer",
    )
    topology: Literal["none", "best-effort", "restricted", "single-numa-node"] = Field(
        default="best-effort",
        description="How strictly GPU, processors and memory share a NUMA node",
    )
    system_cpus: int = Field(default=2, ge=1, le=64, description="Processors kept from pods")
    system_memory_mib: int = Field(
        default=4096, ge=256, le=1_048_576, description="Memory kept from pods, MiB per host"
    )


class EtcdBackup(Model):
    """Backups of the cluster's state, on every control host."""

    at: str = Field(
        default="/var/backups/appliance/etcd",
        pattern=ABSOLUTE_PATH,
        max_length=PATH_LENGTH,
        description="Folder on the host",
    )
    every_hours: int = Field(default=6, ge=1, le=168, description="Hours between two of them")
    keep: int = Field(default=28, ge=2, le=1000, description="How many are kept")


class OidcIssuer(Model):
    """Whom the API believes who somebody is: an OpenID Connect provider."""

    issuer: str = Field(
        pattern=ISSUER,
        max_length=1000,
        description="Its URL, as iss of its tokens; control hosts fetch its keys there",
    )
    client_id: str = Field(
        pattern=CLIENT, description="Whom tokens must be for (aud): kubectl's client there"
    )
    username: str = Field(
        default="email",
        pattern=CLAIM,
        description="Claim that names the user, as in projects[].users; email must be verified",
    )
    groups: str = Field(
        default="groups", pattern=CLAIM, description="Claim with groups, as in projects[].groups"
    )
    prefix: str | None = Field(
        default=None,
        pattern=PREFIX,
        description="Before its users and groups, so that two issuers name nobody alike",
    )
    ca: str | None = Field(
        default=None,
        pattern=CERTIFICATES,
        max_length=16_000,
        description="Certificates of its authority, PEM; none: those the API server's image trusts",
    )


class KubernetesOptions(Model):
    """Stage kubernetes. The control plane lives on the control hosts: one, or three with ``address``."""

    external: File | None = Field(
        default=None,
        description="Kubeconfig of a cluster that is there already; path relative to the site's folder",
    )
    version: str | None = Field(
        default=None, pattern=RELEASE, description="Release, as 1.35; none: the profile's"
    )
    containerd: str | None = Field(
        default=None,
        pattern=CONTAINERD,
        description="Release of containerd, as 2.3; none: the profile's",
    )
    address: IPv4Address | None = Field(
        default=None, description="Virtual address of three control planes, in network management"
    )
    address_image: str | None = Field(
        default=None,
        pattern=PINNED_IMAGE,
        max_length=512,
        description="Image of kube-vip, which holds address, with its digest; none: the one of source",
    )
    pod_network: IPv4Network = Field(
        default=IPv4Network("10.244.0.0/16"),
        # In strict JSON only text makes a network.
        validate_default=False,
        description="Addresses of pods, this cluster's alone",
    )
    service_network: IPv4Network = Field(
        default=IPv4Network("10.96.0.0/16"),
        # In strict JSON only text makes a network.
        validate_default=False,
        description="Addresses of services",
    )
    network: Literal["calico", "cilium", "bridge"] = Field(
        default="calico",
        description="Pod network; bridge: plain routes in one Ethernet segment, enforces no NetworkPolicy",
    )
    network_policies: Literal["none", "supplied"] = Field(
        default="none",
        description="What enforces NetworkPolicies on bridge; supplied: a manifest among those of source, as kube-router's",
    )
    network_version: str | None = Field(
        default=None,
        pattern=CHART_VERSION,
        description="Version of calico's or cilium's chart; none: v3.32.1, 1.20.1",
    )
    dns: Literal["coredns", "supplied"] = Field(
        default="coredns", description="supplied: a manifest among those of source"
    )
    source: str | None = Field(
        default=None,
        pattern=ABSOLUTE_PATH,
        max_length=PATH_LENGTH,
        description="Folder on the hosts with what a site without Internet needs",
    )
    source_parts: Few[SourcePart] = Field(
        default=("packages", "images", "charts", "manifests"),
        description="What source brings, charts with Helm's program; the rest comes from its makers",
    )
    trial_image: str | None = Field(
        default=None,
        pattern=IMAGE,
        max_length=512,
        description="Image of pods that try the scheduler, wait, or measure hosts, with sh and chroot: with its digest, in an offline source by tag; none: busybox 1.36.1 by its digest",
    )
    registry_mirrors: NamedFew[Registry, MirrorUrl] = Field(
        default_factory=dict, description="Registry host to the URL of its mirror"
    )
    oidc: Few[OidcIssuer] = Field(
        default=(), description="Who members of projects are, beside certificates (1.30 and newer)"
    )
    kubelet: KubeletOptions = Field(
        default=KubeletOptions.model_construct(), description="Policies of GPU hosts"
    )
    etcd_backup: EtcdBackup = Field(
        default=EtcdBackup.model_construct(), description="Backups of etcd"
    )

    def offline(self, part: SourcePart) -> str:
        """The folder that brings ``part``; "" where that comes from its maker."""
        return self.source if self.source and part in self.source_parts else ""

    @property
    def enforces_policies(self) -> bool:
        """Whether the pod network keeps to NetworkPolicies; of an external cluster nobody here knows, and it is taken so."""
        bridged = self.external is None and self.network == "bridge"
        return not bridged or self.network_policies == "supplied"

    @model_validator(mode="after")
    def _external_is_alone(self) -> Self:
        if self.external is not None and self.model_fields_set - {"external"}:
            raise ValueError(
                "external is a cluster of somebody else's: give no other key beside it"
            )
        return self


class ContainerdRepository(Model):
    """Where containerd comes from on a site whose ``kubernetes.source`` brings no packages."""

    source: Literal["docker", "distribution"] = Field(
        default="docker",
        description="Docker's repository, which has containerd 2.x, or the distribution's own package",
    )
    mirror: MirrorUrl | None = Field(
        default=None,
        description="Mirror of Docker's repository for the hosts' system; none: Docker's own",
    )
    key: KeyFile | None = Field(
        default=None, description="File of the signing key in the mirror; none: Docker's own"
    )
    fingerprint: Fingerprint | None = Field(
        default=None, description="Of the signing key, 40 hexadecimal digits; none: Docker's own"
    )


class KubernetesRepository(Model):
    """Where kubeadm, kubelet and kubectl come from on a site whose ``kubernetes.source`` brings no packages."""

    source: Literal["kubernetes", "hosts"] = Field(
        default="kubernetes",
        description="The project's repositories, one per minor release, or what the hosts' own sources carry",
    )
    mirror: MirrorUrl | None = Field(
        default=None,
        description="Mirror of the project's repositories, with v1.35/deb and v1.35/rpm in it; none: the project's own",
    )
    key: KeyFile | None = Field(
        default=None, description="File of the signing key in the mirror; none: the project's own"
    )
    fingerprint: Fingerprint | None = Field(
        default=None,
        description="Of the signing key, 40 hexadecimal digits; none: the project's own",
    )


class HelmProgram(Model):
    """Helm 3.14 or newer, or 4, on a site whose ``kubernetes.source`` brings no charts."""

    url: MirrorUrl = Field(description="Its maker's archive for linux-amd64, or a copy of it")
    sha256: str = Field(pattern=SHA256, description="Of the archive, as sha256sum prints it")


HELM = HelmProgram(
    url="https://get.helm.sh/helm-v3.21.4-linux-amd64.tar.gz",
    sha256="61f88ab166748cb19604d7884cb100ae9ccb13804ddeb98e08af167eacbb6a14",
)
"""The newest Helm 3 that was seen (2026-11), with the digest two projects pin it by."""


WORDS = {
    PINNED_IMAGE: (
        "an image with its digest",
        "as registry.example.com/kube-vip:v0.8.9@sha256: and 64 hexadecimal digits",
    ),
    IMAGE: (
        "an image",
        "registry, name and tag or digest, as registry.example.com/team/busybox:1.36.1",
    ),
    RELEASE: ("a release of Kubernetes", "as 1.35 or 1.35.2"),
    CONTAINERD: ("a release of containerd", "as 2.3"),
    ISSUER: ("the URL of an issuer", "as https://sso.example.com/realms/hpc, without ? and #"),
    CLIENT: ("a client's name", "as kubernetes"),
    CLAIM: ("a claim", "as email, preferred_username or groups"),
    PREFIX: ("a prefix", "as sso: with a sign at its end"),
    REGISTRY: (
        "a registry",
        "its host name and port, as registry.example.com:5000",
    ),
}
"""What a text of each pattern is, and how to write one."""
