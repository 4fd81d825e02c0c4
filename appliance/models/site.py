"""The site: which machines make up one appliance, and where they stand."""

from enum import StrEnum
from ipaddress import IPv4Address, IPv4Network
from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from appliance.models.base import Model
from appliance.models.profile import Limit
from appliance.models.site_containers import ContainerOptions
from appliance.models.site_fabric import FabricOptions, HostName
from appliance.models.site_kubernetes import KubernetesOptions
from appliance.models.site_mig import MigOptions
from appliance.models.site_scheduler import SchedulerOptions
from appliance.models.site_workloads import WorkloadsOptions
from appliance.models.texts import (
    PATH_LENGTH,
    Area,
    BmcUser,
    Component,
    Few,
    File,
    LimitName,
    Many,
    Named,
    NamedFew,
    NetworkName,
    PerHost,
    ProfileName,
    PublicKey,
    Release,
    SecretName,
    Server,
    Zone,
)

MAC = r"^[0-9a-f]{2}(:[0-9a-f]{2}){5}$"
ABSOLUTE_PATH = r"^(/[A-Za-z0-9_-][A-Za-z0-9._-]*)+$"
ACCOUNT_NAME = r"^[a-z_][a-z0-9_-]{0,30}$"
TIME_LIMIT = (
    r"^(UNLIMITED|[0-9]{1,6}(:[0-5][0-9]){0,2}|[0-9]{1,4}-([01]?[0-9]|2[0-3])(:[0-5][0-9]){0,2})$"
)
DEVICE = r"^/dev(/[A-Za-z0-9_][A-Za-z0-9._:+-]*)+$"

Mac = Annotated[str, Field(pattern=MAC)]
AbsolutePath = Annotated[str, Field(pattern=ABSOLUTE_PATH, max_length=PATH_LENGTH)]
AccountName = Annotated[str, Field(pattern=ACCOUNT_NAME)]
Device = Annotated[str, Field(pattern=DEVICE, max_length=PATH_LENGTH)]


FINGERPRINT = r"^[0-9A-Fa-f]{40}$"
MIRROR = (
    r"^https?://[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?(:[0-9]{1,5})?"
    r"(/[A-Za-z0-9_~-][A-Za-z0-9._~+-]*)*/?$"
)
VARIABLE = r"^[A-Za-z_][A-Za-z0-9_]{0,127}$"
FILE_PATH = r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029]{1,1024}$"
KEY_FILE = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"

FilePath = Annotated[str, Field(pattern=FILE_PATH)]
Fingerprint = Annotated[str, Field(pattern=FINGERPRINT)]
KeyFile = Annotated[str, Field(pattern=KEY_FILE)]
MirrorUrl = Annotated[str, Field(pattern=MIRROR, max_length=1000)]


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


class SecretRef(Model):
    """Where a secret is kept; exactly one key. Paths are relative to the site's folder."""

    model_config = ConfigDict(
        json_schema_extra={"oneOf": [{"required": [key]} for key in ("file", "env", "vault")]}
    )

    file: File | None = Field(default=None, description="File of mode 0600 or 0400")
    env: str | None = Field(default=None, pattern=VARIABLE, description="Environment variable")
    vault: File | None = Field(default=None, description="ansible-vault file, as path#key")

    @model_validator(mode="after")
    def _one(self) -> Self:
        if sum(v is not None for v in (self.file, self.env, self.vault)) != 1:
            raise ValueError("names no single place: give exactly one of file, env, vault")
        return self


class Access(Model):
    """How the control host logs in to the hosts."""

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
    mtu: int = Field(default=1500, ge=1280, le=9216, description="Bytes")


class Bmc(Model):
    """A host's management controller."""

    address: IPv4Address = Field(description="Its address; in network bmc where there is one")
    user: BmcUser = Field(description="Account of the controller")
    password: SecretRef = Field(description="Where its password is kept")


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
    owner: Owner | None = Field(
        default=None,
        description="Who gives a GPU host work; none: Kubernetes where the site has it, else Slurm",
    )


class Admin(Model):
    """A person who may log in to every host."""

    name: AccountName = Field(description="Account made on every host")
    keys: Few[PublicKey] = Field(min_length=1, description="OpenSSH public keys")
    sudo: bool = Field(default=True, description="May become root")


class BaseOptions(Model):
    """Stage base."""

    timezone: Zone = Field(default="Etc/UTC", description="As Europe/Berlin")
    ntp_servers: Few[Server] = Field(
        default=(), description="Empty: the first control host serves time to the others"
    )
    admins: Many[Admin] = Field(default=(), description="People")
    firewall: bool = Field(default=True, description="Let in only what the site needs")
    mirror: MirrorUrl | None = Field(
        default=None,
        description="Package mirror to write into the hosts' sources (RHEL: EPEL's); none: they keep theirs",
    )
    security_mirror: MirrorUrl | None = Field(
        default=None, description="Mirror of the security updates, where that is another one"
    )


class Export(Model):
    """A directory the storage host serves. Clients default to the management network."""

    path: AbsolutePath = Field(description="Directory on the storage host")
    clients: Few[IPv4Network] = Field(
        default=(), description="Networks that may mount it; empty: management"
    )
    read_only: bool = Field(default=False, description="Nobody may write")


class ExternalExport(Model):
    """A directory some other NFS server serves."""

    server: Server = Field(description="Host name or address of the server")
    path: AbsolutePath = Field(description="Directory it exports")


class NfsMount(Model):
    """Where hosts mount an export. ``export`` is the path of an export above."""

    export: AbsolutePath = Field(description="Path of an export, own or external")
    at: AbsolutePath = Field(description="Where hosts see it")


class Scratch(Model):
    """Local scratch of GPU hosts. No devices: a directory of the system disk, bound to ``at``."""

    at: AbsolutePath = Field(default="/scratch", description="Where GPU hosts see it")
    devices: Few[Device] = Field(
        default=(), description="Whole disks given to it; what they hold is lost"
    )


class StorageOptions(Model):
    """Stage storage."""

    exports: Few[Export] = Field(default=(), description="What the storage host serves")
    external: Few[ExternalExport] = Field(default=(), description="What others serve")
    mounts: Few[NfsMount] = Field(default=(), description="What all hosts mount")
    scratch: Scratch | None = Field(
        default=Scratch(), description="Local scratch of GPU hosts; null: none"
    )


class GpuRepository(Model):
    """Where the NVIDIA driver and what goes with it come from."""

    source: Literal["nvidia", "distribution"] = Field(
        default="nvidia", description="NVIDIA's repository, or the distribution's own packages"
    )
    mirror: MirrorUrl | None = Field(
        default=None,
        description="Mirror of NVIDIA's repository for the hosts' system; none: NVIDIA's own",
    )
    key: KeyFile | None = Field(
        default=None, description="File of the signing key in the mirror; none: NVIDIA's own"
    )
    fingerprint: Fingerprint | None = Field(
        default=None, description="Of the signing key, 40 hexadecimal digits; none: NVIDIA's own"
    )
    kernel_modules: Literal["automatic", "open", "proprietary"] = Field(
        default="automatic", description="Automatic: by GPU generation and driver branch"
    )


class DocaRepository(Model):
    """Where DOCA-OFED comes from. NVIDIA publishes no fingerprint of its key that could be known here."""

    mirror: MirrorUrl = Field(
        description="DOCA's repository of the release for the hosts' system, or a mirror of it"
    )
    key: KeyFile = Field(
        default="GPG-KEY-Mellanox.pub", description="File of the signing key in the mirror"
    )
    fingerprint: Fingerprint = Field(
        description="Of the signing key, 40 hexadecimal digits: gpg --show-keys FILE"
    )


class Repositories(Model):
    """Package sources besides the distribution's."""

    gpu: GpuRepository = Field(default=GpuRepository(), description="NVIDIA's packages")
    doca: DocaRepository | None = Field(
        default=None, description="DOCA-OFED; needed with fabric.driver doca"
    )


class GpuOptions(Model):
    """Stages that free a host of work before they change it: another driver, the next Kubernetes."""

    drain_minutes: int = Field(
        default=30, ge=0, le=10080, description="How long running jobs and pods are waited for"
    )
    interrupt_jobs: bool = Field(
        default=False, description="Consent to end jobs and pods that run longer"
    )
    at_once: int = Field(
        default=1, ge=1, le=1000, description="Hosts of one owner that are changed at a time"
    )


class Partition(Model):
    """A Slurm partition over all GPU hosts; time limit as Slurm writes it."""

    name: AccountName = Field(description="Name of the partition")
    default: bool = Field(default=False, description="Takes jobs that name no partition")
    max_time: str = Field(
        default="UNLIMITED", pattern=TIME_LIMIT, description="Longest job, as 2-00:00:00"
    )


class Account(Model):
    """A Slurm account and the users who may charge it."""

    name: AccountName = Field(description="Name of the account")
    users: Many[AccountName] = Field(default=(), description="Who may charge it")


class SlurmOptions(Model):
    """Stage slurm."""

    cluster: AccountName = Field(default="appliance", description="Name in accounting")
    partitions: Few[Partition] = Field(
        default=(Partition(name="gpu", default=True),), description="Exactly one is the default"
    )
    accounts: Many[Account] = Field(
        default=(Account(name="default", users=("root",)),), description="Who pays"
    )
    containers: ContainerOptions | None = Field(
        default=None, description="Containers in jobs (Pyxis, enroot); none: no containers"
    )


class ObserveOptions(Model):
    """Stage observe. Retention in days."""

    retention_days: int = Field(
        default=30, ge=1, le=3650, description="How long measurements are kept"
    )


class Site(Model):
    """One appliance, as its owner describes it; facts found on the machines never enter here."""

    version: Literal[1] = Field(description="Of this file's schema")
    name: HostName = Field(description="Name of the site")
    profile: ProfileName | None = Field(
        default=None, description="Hardware class: a name, or a file relative to the site's folder"
    )
    access: Access = Field(default=Access(), description="How to log in")
    networks: NamedFew[NetworkName, Network] = Field(description='Needs "management"')
    hosts: PerHost[Host] = Field(min_length=1, description="The machines")
    secrets: NamedFew[SecretName, SecretRef] = Field(
        default_factory=dict, description="Where each secret is kept: munge_key, slurmdbd_password"
    )
    base: BaseOptions = Field(default=BaseOptions(), description="People, time, firewall")
    repositories: Repositories = Field(
        default=Repositories(), description="Where packages come from"
    )
    gpu: GpuOptions = Field(default=GpuOptions(), description="Driver changes")
    mig: MigOptions = Field(default=MigOptions(), description="How GPUs are divided")
    fabric: FabricOptions = Field(default=FabricOptions(), description="InfiniBand")
    storage: StorageOptions = Field(default=StorageOptions(), description="NFS and scratch")
    slurm: SlurmOptions = Field(default=SlurmOptions(), description="Partitions and accounts")
    observe: ObserveOptions = Field(default=ObserveOptions(), description="Monitoring")
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
    def brings_cluster(self) -> str | None:
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
