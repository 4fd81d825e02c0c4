"""The site: the machines of one appliance, and their configuration."""

from collections.abc import Mapping
from enum import StrEnum
from ipaddress import IPv4Address, IPv4Network
from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, PrivateAttr

from appliance.models.base import Model
from appliance.models.notify import NotifyOptions
from appliance.models.profile import GPUS, Limit, Profile
from appliance.models.provision import IDENTITY, ProvisionOptions, SystemDisk
from appliance.models.secret import SecretRef
from appliance.models.text_types import (
    AccountName,
    Area,
    BmcUser,
    Component,
    Few,
    HostName,
    LimitName,
    Line,
    MirrorUrl,
    Named,
    NamedFew,
    NetworkName,
    PerHost,
    ProfileName,
    Release,
    SecretName,
)
from appliance.stages.backup.site import BackupOptions
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

RackName = Annotated[Line, Field(min_length=1, max_length=64)]

UNITS = 100
"""Units of a rack; racks of 60 units are built."""

NO_SLURM = SlurmOptions()


FILE_PATH = r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029]{1,1024}$"

FilePath = Annotated[str, Field(pattern=FILE_PATH)]


def _slurm_of_version(site: dict[str, Any]) -> SlurmOptions | None:
    """For a site without section slurm: in version 1 every site had Slurm."""
    return NO_SLURM if site.get("version") == 1 else None


class Role(StrEnum):
    """A role of a host; a host may have several."""

    CONTROL = "control"
    GPU = "gpu"
    STORAGE = "storage"
    LOGIN = "login"


class Owner(StrEnum):
    """The scheduler that owns a GPU host; a host has one owner."""

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
    become: bool = Field(default=False, description="Use sudo; required if user is not root")


class Network(Model):
    """One IPv4 network of the site."""

    cidr: IPv4Network = Field(description="Address and prefix length, such as 10.0.0.0/24")
    gateway: IPv4Address | None = Field(default=None, description="Default gateway of the network")
    dns: Few[IPv4Address] = Field(default=(), description="Name servers")
    dhcp: Few[IPv4Address] = Field(
        default=(),
        description="Known DHCP servers in this network; any other that answers a machine during its installation is reported",
    )
    mtu: int = Field(default=1500, ge=1280, le=9216, description="Bytes")


BMC_NETWORK = "bmc"
"""The network of BMCs."""


class Bmc(Model):
    """A host's BMC."""

    address: IPv4Address = Field(description="Its address; in network bmc if there is one")
    user: BmcUser = Field(description="Account of the BMC")
    password: SecretRef = Field(description="Where its password is kept")
    port: int = Field(default=443, ge=1, le=65535, description="Port of Redfish, always TLS")
    authority: FilePath | None = Field(
        default=None,
        description="CA certificate of the BMCs' certificates, relative to the site's folder; "
        "default: the fingerprint of each BMC is pinned (appliance trust --bmc)",
    )


def _is_none(value: object) -> bool:
    return value is None


class Host(Model):
    """One machine. ``address`` is its address in the management network."""

    # "class" is a keyword of Python; dumps use the key's name.
    model_config = ConfigDict(serialize_by_alias=True)

    name: HostName = Field(description="Unique host name")
    roles: Few[Role] = Field(min_length=1, description="Roles of the host")
    address: IPv4Address = Field(description="Address in network management")
    mac: Mac | None = Field(default=None, description="MAC address of its management port")
    rack: RackName | None = Field(default=None, description="Name of its rack")
    unit: int | None = Field(
        default=None, ge=1, le=UNITS, description="Its lowest unit in the rack; 1 is at the bottom"
    )
    serial: Annotated[str, Field(pattern=IDENTITY)] | None = Field(
        default=None, description="Serial number of the machine, as its BMC reports it"
    )
    addresses: NamedFew[NetworkName, IPv4Address] = Field(
        default_factory=dict, description="Addresses in other networks, by network name"
    )
    bmc: Bmc | None = Field(default=None, description="Baseboard management controller (BMC)")
    disk: SystemDisk | None = Field(
        default=None, description="System disk; default: provision.disk"
    )
    gpus: int | None = Field(
        default=None,
        ge=1,
        le=GPUS,
        description="Number of GPUs, if fewer than in its class; default: the profile's",
    )
    hardware_class: ProfileName | None = Field(
        default=None,
        alias="class",
        exclude_if=_is_none,
        description="Hardware class of this host, in the notation of profile; default: the site's profile",
    )
    owner: Owner | None = Field(
        default=None,
        description="Scheduler that owns a GPU host; default: Kubernetes if the site has it, else Slurm",
    )

    @property
    def has_class(self) -> bool:
        """Whether a hardware class describes it: each GPU host has one, others if the site names it."""
        return self.hardware_class is not None or Role.GPU in self.roles


class Repositories(Model):
    """Package sources in addition to the distribution's."""

    gpu: GpuRepository = Field(
        default=GpuRepository.model_construct(), description="NVIDIA's packages"
    )
    doca: DocaRepository | None = Field(
        default=None, description="DOCA-OFED; required with fabric.driver doca"
    )
    containerd: ContainerdRepository = Field(
        default=ContainerdRepository.model_construct(), description="containerd of Kubernetes hosts"
    )
    kubernetes: KubernetesRepository = Field(
        default=KubernetesRepository.model_construct(), description="kubeadm, kubelet and kubectl"
    )
    helm: HelmProgram = Field(default=HELM, description="Helm's program; default: 3.21.4")
    bundle: MirrorUrl | None = Field(
        default=None,
        description="Air-gap bundle, as served by appliance bundle serve: hosts use it instead of all other package sources; default: none",
    )


class Site(Model):
    """One appliance as declared by its owner; it never contains facts from the machines."""

    version: Literal[1, 2] = Field(
        description="Version of this file's schema; in version 1 a site has Slurm even without its section"
    )
    name: HostName = Field(description="Name of the site")
    profile: ProfileName | None = Field(
        default=None, description="Hardware class: a name, or a file relative to the site's folder"
    )
    access: Access = Field(default=Access.model_construct(), description="How to log in")
    networks: NamedFew[NetworkName, Network] = Field(description='Requires "management"')
    hosts: PerHost[Host] = Field(min_length=1, description="The machines")
    secrets: NamedFew[SecretName, SecretRef] = Field(
        default_factory=dict,
        description="Where each secret is kept, by the name that its section uses",
    )
    provision: ProvisionOptions | None = Field(
        default=None,
        description="Installation of bare machines; default: they have an operating system",
    )
    base: BaseOptions = Field(
        default=BaseOptions.model_construct(), description="People, time, firewall"
    )
    repositories: Repositories = Field(
        default=Repositories.model_construct(), description="Package sources"
    )
    gpu: GpuOptions = Field(default=GpuOptions.model_construct(), description="Driver changes")
    mig: MigOptions = Field(
        default=MigOptions.model_construct(), description="How GPUs are partitioned"
    )
    fabric: FabricOptions = Field(default=FabricOptions.model_construct(), description="InfiniBand")
    storage: StorageOptions = Field(
        default=StorageOptions.model_construct(), description="NFS and scratch"
    )
    slurm: SlurmOptions | None = Field(
        default_factory=_slurm_of_version,
        description="Slurm: partitions and accounts; default: no Slurm, except in version 1",
    )
    observe: ObserveOptions = Field(
        default=ObserveOptions.model_construct(), description="Monitoring"
    )
    kubernetes: KubernetesOptions | None = Field(
        default=None, description="A Kubernetes cluster; default: no cluster"
    )
    scheduler: SchedulerOptions | None = Field(
        default=None, description="Queues of Kubernetes; default: none"
    )
    workloads: WorkloadsOptions | None = Field(
        default=None, description="Add-ons for the cluster's users; default: none"
    )
    backup: BackupOptions | None = Field(
        default=None, description="Backups off the hosts; default: none are written"
    )
    notify: NotifyOptions | None = Field(
        default=None,
        description="Receiver of events: runs and changes of health; default: none are sent",
    )
    software: NamedFew[Component, Release] = Field(
        default_factory=dict, description="Releases that differ from the profile's"
    )
    limits: Named[LimitName, Limit] = Field(
        default_factory=dict,
        description="Limits of checks that differ from the profile's, by check id",
    )
    simulated: Few[Area] = Field(
        default=(),
        description="Areas of hardware that are simulated; set only by the virtual rack",
    )

    _profiles: Mapping[str, Profile] = PrivateAttr(default_factory=dict)
    """By host, the profile of its class; empty if all hosts have the site's."""
    _is_mixed: bool = PrivateAttr(default=False)

    def profile_of(self, host: str, default: Profile) -> Profile:
        """The profile of a host's class; ``default``: the site's own."""
        return self._profiles.get(host, default)

    def profiles(self, default: Profile) -> tuple[Profile, ...]:
        """The profiles of the site's GPU hosts, each once, in the hosts' order; ``default``: the site's own."""
        if not self._profiles:
            return (default,)
        found = (self.profile_of(host.name, default) for host in self.with_role(Role.GPU))
        return tuple({profile.name: profile for profile in found}.values()) or (default,)

    @property
    def has_classes(self) -> bool:
        """Whether hosts have different classes."""
        return bool(self._profiles)

    @property
    def is_mixed(self) -> bool:
        """Whether GPU hosts have different classes; also true for a part of such a site."""
        return self._is_mixed

    def with_profiles(self, profiles: Mapping[str, Profile]) -> Self:
        """The same site with the profile of each host; none: all hosts have the site's."""
        made = self.model_copy()
        made._profiles = profiles
        names = {profiles[host.name].name for host in self.with_role(Role.GPU) if profiles}
        made._is_mixed = len(names) > 1
        return made

    @property
    def slurm_options(self) -> SlurmOptions:
        """Section slurm; for a site without Slurm its defaults, which configure nothing."""
        return self.slurm or NO_SLURM

    def with_role(self, role: Role) -> tuple[Host, ...]:
        """The hosts with ``role``, in the site's order."""
        return self._made_of(self.hosts, _by_role)[role]

    def owner(self, host: Host) -> Owner:
        """The scheduler that owns ``host``: as declared, else Kubernetes if the site has it, else Slurm."""
        return host.owner or (Owner.KUBERNETES if self.kubernetes else Owner.SLURM)

    def gpu_hosts_of(self, owner: Owner) -> tuple[Host, ...]:
        """The GPU hosts that ``owner`` owns."""
        return tuple(host for host in self.with_role(Role.GPU) if self.owner(host) is owner)

    @property
    def external_cluster(self) -> str | None:
        """The kubeconfig of an external Kubernetes cluster, relative to the site's folder."""
        return self.kubernetes.external if self.kubernetes else None

    def host(self, name: str) -> Host:
        """The host named ``name``. Raises KeyError."""
        return self._made_of(self.hosts, _by_name)[name]


def _by_role(hosts: tuple[Host, ...]) -> dict[Role, tuple[Host, ...]]:
    return {role: tuple(host for host in hosts if role in host.roles) for role in Role}


def _by_name(hosts: tuple[Host, ...]) -> dict[str, Host]:
    """Of several hosts with one name, the first."""
    return {host.name: host for host in reversed(hosts)}
