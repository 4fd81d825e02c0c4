"""The site's section ``storage``: exports, mounts, scratch."""

from ipaddress import IPv4Network

from pydantic import Field

from appliance.models.base import Model
from appliance.models.text_types import AbsolutePath, Device, Few, Server


class Export(Model):
    """A directory that the storage host exports. Clients default to the networks management and storage."""

    path: AbsolutePath = Field(description="Directory on the storage host")
    clients: Few[IPv4Network] = Field(
        default=(), description="Networks that may mount it; default: management and storage"
    )
    read_only: bool = Field(default=False, description="Read-only for all clients")


class ExternalExport(Model):
    """A directory that another NFS server exports."""

    server: Server = Field(description="Host name or address of the server")
    path: AbsolutePath = Field(description="Exported directory")


class NfsMount(Model):
    """The mount point of an export. ``export`` is the path of an export above."""

    export: AbsolutePath = Field(description="Path of an export, own or external")
    at: AbsolutePath = Field(description="Mount point on the hosts")


class Scratch(Model):
    """Local scratch of GPU hosts. Without devices: a directory of the system disk, bound to ``at``."""

    at: AbsolutePath = Field(default="/scratch", description="Mount point on GPU hosts")
    devices: Few[Device] = Field(
        default=(), description="Whole disks to use; their content is erased"
    )


class StorageOptions(Model):
    """Stage storage."""

    exports: Few[Export] = Field(default=(), description="Exports of the storage host")
    external: Few[ExternalExport] = Field(default=(), description="Exports of other servers")
    mounts: Few[NfsMount] = Field(default=(), description="Mounts on all hosts")
    scratch: Scratch | None = Field(
        default=Scratch.model_construct(), description="Local scratch of GPU hosts; null: none"
    )

    def mount_of(self, folder: str) -> NfsMount | None:
        """The mounts at this folder or above it."""
        return next((m for m in self.mounts if f"{folder}/".startswith(f"{m.at}/")), None)
