"""The site: which machines make up one appliance, and where they stand."""

from enum import StrEnum
from ipaddress import IPv4Address, IPv4Network
from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from appliance.models.base import Model
from appliance.models.profile import Limit

HOST_NAME = r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"
MAC = r"^[0-9a-f]{2}(:[0-9a-f]{2}){5}$"
ABSOLUTE_PATH = r"^(/[A-Za-z0-9_-][A-Za-z0-9._-]*)+$"
ACCOUNT_NAME = r"^[a-z_][a-z0-9_-]{0,30}$"
TIME_LIMIT = r"^(UNLIMITED|(\d+-)?\d+(:\d\d){0,2})$"
DEVICE = r"^/dev/[A-Za-z0-9._:/-]+$"

HostName = Annotated[str, Field(pattern=HOST_NAME)]
Mac = Annotated[str, Field(pattern=MAC)]
AbsolutePath = Annotated[str, Field(pattern=ABSOLUTE_PATH)]
AccountName = Annotated[str, Field(pattern=ACCOUNT_NAME)]
Device = Annotated[str, Field(pattern=DEVICE)]


class Role(StrEnum):
    """What a host does; a host may have several."""

    CONTROL = "control"
    GPU = "gpu"
    STORAGE = "storage"
    LOGIN = "login"


class SecretRef(Model):
    """Where a secret is kept; exactly one key. Paths are relative to the site's folder."""

    model_config = ConfigDict(
        json_schema_extra={"oneOf": [{"required": [key]} for key in ("file", "env", "vault")]}
    )

    file: str | None = None
    env: str | None = None
    vault: str | None = Field(default=None, description="ansible-vault file, as path#key")

    @model_validator(mode="after")
    def _one(self) -> Self:
        if sum(v is not None for v in (self.file, self.env, self.vault)) != 1:
            raise ValueError("names no single place: give exactly one of file, env, vault")
        return self


class Access(Model):
    """How the control host logs in to the hosts."""

    user: AccountName = "root"
    port: int = Field(default=22, ge=1, le=65535)
    private_key: str | None = Field(default=None, description="Path, relative to the site's folder")
    known_hosts: str = "known_hosts"
    become: bool = Field(default=False, description="Use sudo; needed where user is not root")


class Network(Model):
    """One IPv4 network of the site."""

    cidr: IPv4Network
    gateway: IPv4Address | None = None
    dns: tuple[IPv4Address, ...] = ()
    mtu: int = Field(default=1500, ge=1280, le=9216)


class Bmc(Model):
    """A host's management controller."""

    address: IPv4Address
    user: str
    password: SecretRef


class Host(Model):
    """One machine. ``address`` is its address in the management network."""

    name: HostName
    roles: tuple[Role, ...] = Field(min_length=1)
    address: IPv4Address
    mac: Mac | None = None
    addresses: dict[str, IPv4Address] = Field(
        default_factory=dict, description="Addresses in other networks, by network name"
    )
    bmc: Bmc | None = None


class Admin(Model):
    """A person who may log in to every host."""

    name: AccountName
    keys: tuple[str, ...] = Field(min_length=1, description="OpenSSH public keys")
    sudo: bool = True


class BaseOptions(Model):
    """Stage base."""

    timezone: str = "Etc/UTC"
    ntp_servers: tuple[str, ...] = Field(
        default=(), description="Empty: the first control host serves time to the others"
    )
    admins: tuple[Admin, ...] = ()
    firewall: bool = True
    manage_repositories: bool = False


class Export(Model):
    """A directory the storage host serves. Clients default to the management network."""

    path: AbsolutePath
    clients: tuple[IPv4Network, ...] = ()
    read_only: bool = False


class ExternalExport(Model):
    """A directory some other NFS server serves."""

    server: str
    path: AbsolutePath


class NfsMount(Model):
    """Where hosts mount an export. ``export`` is the path of an export above."""

    export: AbsolutePath
    at: AbsolutePath


class Scratch(Model):
    """Local scratch of GPU hosts. No devices: a directory of the system disk, bound to ``at``."""

    at: AbsolutePath = "/scratch"
    devices: tuple[Device, ...] = ()


class StorageOptions(Model):
    """Stage storage."""

    exports: tuple[Export, ...] = ()
    external: tuple[ExternalExport, ...] = ()
    mounts: tuple[NfsMount, ...] = ()
    scratch: Scratch | None = Scratch()


class FabricOptions(Model):
    """Stage fabric. The subnet manager runs on the control hosts unless a switch or UFM does it."""

    subnet_manager: Literal["opensm", "external", "none"] = "opensm"


class Partition(Model):
    """A Slurm partition over all GPU hosts; time limit as Slurm writes it."""

    name: AccountName
    default: bool = False
    max_time: str = Field(default="UNLIMITED", pattern=TIME_LIMIT)


class Account(Model):
    """A Slurm account and the users who may charge it."""

    name: AccountName
    users: tuple[AccountName, ...] = ()


class SlurmOptions(Model):
    """Stage slurm."""

    cluster: AccountName = "appliance"
    partitions: tuple[Partition, ...] = (Partition(name="gpu", default=True),)
    accounts: tuple[Account, ...] = (Account(name="default", users=("root",)),)


class ObserveOptions(Model):
    """Stage observe. Retention in days."""

    retention_days: int = Field(default=30, ge=1)


class Site(Model):
    """One appliance, as its owner describes it; facts found on the machines never enter here."""

    version: Literal[1]
    name: HostName
    profile: str | None = None
    access: Access = Access()
    networks: dict[str, Network] = Field(description='Needs "management"')
    hosts: tuple[Host, ...] = Field(min_length=1)
    secrets: dict[str, SecretRef] = Field(default_factory=dict)
    base: BaseOptions = BaseOptions()
    fabric: FabricOptions = FabricOptions()
    storage: StorageOptions = StorageOptions()
    slurm: SlurmOptions = SlurmOptions()
    observe: ObserveOptions = ObserveOptions()
    software: dict[str, str] = Field(
        default_factory=dict, description="Releases that differ from the profile's"
    )
    limits: dict[str, Limit] = Field(default_factory=dict)
    simulated: tuple[str, ...] = Field(
        default=(),
        description="Areas of hardware that are simulated; only the virtual rack sets it",
    )

    def with_role(self, role: Role) -> tuple[Host, ...]:
        """The hosts that carry ``role``, in the site's order."""
        return tuple(host for host in self.hosts if role in host.roles)

    def host(self, name: str) -> Host:
        """The host called ``name``. Raises KeyError."""
        return next((h for h in self.hosts if h.name == name), None) or _missing(name)


def _missing(name: str) -> Host:
    raise KeyError(name)
