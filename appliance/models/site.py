"""The site: which machines make up one appliance, and where they stand."""

from enum import StrEnum
from ipaddress import IPv4Address, IPv4Network
from typing import Annotated, Literal

from pydantic import Field

from appliance.models.base import Model
from appliance.models.profile import GPUS, Limit
from appliance.models.provision import ProvisionOptions, SystemDisk
from appliance.models.secret import SecretRef
from appliance.models.texts import (
    AccountName,
    Area,
    BmcUser,
    Component,
    Few,
    HostName,
    LimitName,
    Named,
    NamedFew,
    NetworkName,
    PerHost,
    ProfileName,
    Release,
    SecretName,
)
from appliance.stages.base.site import BaseOptions
from appliance.stages.fabric.site import DocaRepository, FabricOptions
from appliance.stages.gpu.site import GpuOptions, GpuRepository
from appliance.stages.kubernetes.site import (
    HELM,
    ContainerdRepository,
    HelmProgram,
    KubernetesOptions,
    KubernetesRepository,
)
from appliance.stages.mig.site import MigOptions
from appliance.stages.observe.site import ObserveOptions
from appliance.stages.scheduler.site import SchedulerOptions
from appliance.stages.slurm.site import SlurmOptions
from appliance.stages.storage.site import StorageOptions
from appliance.stages.workloads.site import WorkloadsOptions

MAC = r"^[0-9a-f]{2}(:[0-9a-f]{2}){5}$"

Mac = Annotated[str, Field(pattern=MAC)]


FILE_PATH = r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029]{1,1024}$"

FilePath = Annotated[str, Field(pattern=FILE_PATH)]


class Role(StrEnum):
    """What a host does; a host may have several."""

    CONTROL = "control"
    GPU = "gpu"
    STORAGE = "storage"
    LOGIN = "login"


class Owner(StrEnum):
    """Who gives a GPU host its work; a host has one owner."""

    KUBERNETES = "kubernetes"
    SLURM = "slurm"


class Access(Model):
    """How the control machine logs in to the hosts."""

    user: AccountName = Field(default="root", description="Account on the hosts")
    port: int = Field(default=22, ge=1, le=65535, description="Port of the SSH server")
    private_key: FilePath | None = Field(
        default=None, description="Path, relative to the site's folder"
    )
    known_hosts: FilePath = Field(
        default="known_hosts", description="Pinned host keys; path, relative to the site's folder"
    )
    become: bool = Field(default=False, description="Use sudo; needed where user is not root")


class Network(Model):
    """One IPv4 network of the site."""

    cidr: IPv4Network = Field(description="Address and prefix length, as 10.0.0.0/24")
    gateway: IPv4Address | None = Field(default=None, description="Default gateway of the network")
    dns: Few[IPv4Address] = Field(default=(), description="Name servers")
    dhcp: Few[IPv4Address] = Field(
        default=(),
        description="Servers that are meant to hand out addresses there; another one that answers a machine while it is installed is told",
    )
    mtu: int = Field(default=1500, ge=1280, le=9216, description="Bytes")


class Bmc(Model):
    """A host's management controller."""

    address: IPv4Address = Field(description="Its address; in network bmc where there is one")
    user: BmcUser = Field(description="Account of the controller")
    password: SecretRef = Field(description="Where its password is kept")
    port: int = Field(default=443, ge=1, le=65535, description="Port of Redfish, always over TLS")
    authority: FilePath | None = Field(
        default=None,
        description="Certificate of who signs the controllers' own, relative to the site's folder; "
        "none: each one's fingerprint is pinned (appliance trust --bmc)",
    )


class Host(Model):
    """One machine. ``address`` is its address in the management network."""

    name: HostName = Field(description="Host name; a name of its own")
    roles: Few[Role] = Field(min_length=1, description="What the host does")
    address: IPv4Address = Field(description="Address in network management")
    mac: Mac | None = Field(default=None, description="MAC address of its management port")
    addresses: NamedFew[NetworkName, IPv4Address] = Field(
        default_factory=dict, description="Addresses in other networks, by network name"
    )
    bmc: Bmc | None = Field(default=None, description="Management controller")
    disk: SystemDisk | None = Field(
        default=None, description="The system's disk; none: as provision.disk says"
    )
    gpus: int | None = Field(
        default=None,
        ge=1,
        le=GPUS,
        description="GPUs of a GPU host that has fewer than its class; none: as many as the profile says",
    )
    owner: Owner | None = Field(
        default=None,
        description="Who gives a GPU host work; none: Kubernetes where the site has it, else Slurm",
    )


class Repositories(Model):
    """Package sources besides the distribution's."""

    gpu: GpuRepository = Field(
        default=GpuRepository.model_construct(), description="NVIDIA's packages"
    )
    doca: DocaRepository | None = Field(
        default=None, description="DOCA-OFED; needed with fabric.driver doca"
    )
    containerd: ContainerdRepository = Field(
        default=ContainerdRepository.model_construct(), description="containerd of Kubernetes hosts"
    )
    kubernetes: KubernetesRepository = Field(
        default=KubernetesRepository.model_construct(), description="kubeadm, kubelet and kubectl"
    )
    helm: HelmProgram = Field(default=HELM, description="Helm's program; not given: 3.21.4")


class Site(Model):
    """One appliance, as its owner describes it; facts found on the machines never enter here."""

    version: Literal[1] = Field(description="Of this file's schema")
    name: HostName = Field(description="Name of the site")
    profile: ProfileName | None = Field(
        default=None, description="Hardware class: a name, or a file relative to the site's folder"
    )
    access: Access = Field(default=Access.model_construct(), description="How to log in")
    networks: NamedFew[NetworkName, Network] = Field(description='Needs "management"')
    hosts: PerHost[Host] = Field(min_length=1, description="The machines")
    secrets: NamedFew[SecretName, SecretRef] = Field(
        default_factory=dict, description="Where each secret is kept: munge_key, slurmdbd_password"
    )
    provision: ProvisionOptions | None = Field(
        default=None, description="Systems for bare machines; none: they come with one"
    )
    base: BaseOptions = Field(
        default=BaseOptions.model_construct(), description="People, time, firewall"
    )
    repositories: Repositories = Field(
        default=Repositories.model_construct(), description="Where packages come from"
    )
    gpu: GpuOptions = Field(default=GpuOptions.model_construct(), description="Driver changes")
    mig: MigOptions = Field(
        default=MigOptions.model_construct(), description="How GPUs are divided"
    )
    fabric: FabricOptions = Field(default=FabricOptions.model_construct(), description="InfiniBand")
    storage: StorageOptions = Field(
        default=StorageOptions.model_construct(), description="NFS and scratch"
    )
    slurm: SlurmOptions = Field(
        default=SlurmOptions.model_construct(), description="Partitions and accounts"
    )
    observe: ObserveOptions = Field(
        default=ObserveOptions.model_construct(), description="Monitoring"
    )
    kubernetes: KubernetesOptions | None = Field(
        default=None, description="A Kubernetes cluster; none: no cluster"
    )
    scheduler: SchedulerOptions | None = Field(
        default=None, description="Queues of Kubernetes; none: it has none"
    )
    workloads: WorkloadsOptions | None = Field(
        default=None, description="What is installed for the cluster's users; none: nothing"
    )
    software: NamedFew[Component, Release] = Field(
        default_factory=dict, description="Releases that differ from the profile's"
    )
    limits: Named[LimitName, Limit] = Field(
        default_factory=dict,
        description="Bounds of checks that differ from the profile's, by check id",
    )
    simulated: Few[Area] = Field(
        default=(),
        description="Areas of hardware that are simulated; only the virtual rack sets it",
    )

    def with_role(self, role: Role) -> tuple[Host, ...]:
        """The hosts that carry ``role``, in the site's order."""
        return self._made_of(self.hosts, _by_role)[role]

    def owner(self, host: Host) -> Owner:
        """Who gives ``host`` its work."""
        return host.owner or (Owner.KUBERNETES if self.kubernetes else Owner.SLURM)

    def gpu_hosts_of(self, owner: Owner) -> tuple[Host, ...]:
        """The GPU hosts that ``owner`` gives work."""
        return tuple(host for host in self.with_role(Role.GPU) if self.owner(host) is owner)

    @property
    def external_cluster(self) -> str | None:
        """The kubeconfig of a Kubernetes cluster of somebody else's, relative to the site's folder."""
        return self.kubernetes.external if self.kubernetes else None

    def host(self, name: str) -> Host:
        """The host called ``name``. Raises KeyError."""
        return self._made_of(self.hosts, _by_name)[name]


def _by_role(hosts: tuple[Host, ...]) -> dict[Role, tuple[Host, ...]]:
    return {role: tuple(host for host in hosts if role in host.roles) for role in Role}


def _by_name(hosts: tuple[Host, ...]) -> dict[str, Host]:
    """Of several hosts with one name the first."""
    return {host.name: host for host in reversed(hosts)}
