"""The site's section ``storage``: exports, mounts, scratch."""

from ipaddress import IPv4Network

from pydantic import Field

from appliance.models.base import Model
from appliance.models.texts import AbsolutePath, Device, Few, Server


class Export(Model):
    """A directory the storage host serves. Clients default to the networks management and storage."""

    path: AbsolutePath = Field(description="Directory on the storage host")
    clients: Few[IPv4Network] = Field(
        default=(), description="Networks that may mount it; empty: management and storage"
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
        default=Scratch.model_construct(), description="Local scratch of GPU hosts; null: none"
    )

    def mount_of(self, folder: str) -> NfsMount | None:
        """What hosts mount at this folder or above it."""
        return next((m for m in self.mounts if f"{folder}/".startswith(f"{m.at}/")), None)
