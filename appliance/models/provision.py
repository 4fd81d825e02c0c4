"""How the machines of a site are installed: the image, the system disk, and the server."""

from ipaddress import IPv4Address
from typing import Annotated, Self

from pydantic import Field, model_validator

from appliance.models.base import Model
from appliance.models.text_types import File

PLACE = r"^[A-Za-z0-9][A-Za-z0-9.:_-]{0,199}$"
"""A name in /dev/disk/by-path (udev's persistent storage rules)."""
IDENTITY = r"^[A-Za-z0-9][A-Za-z0-9 ._:/+-]{0,63}$"
"""A serial number, a WWN or a model, as shown by lsblk."""

Identity = Annotated[str, Field(pattern=IDENTITY)]


class SystemDisk(Model):
    """The system disk. Everything given must match exactly one disk of the machine."""

    path: str | None = Field(default=None, pattern=PLACE, description="A name in /dev/disk/by-path")
    wwn: Identity | None = Field(default=None, description="World Wide Name, as shown by lsblk")
    serial: Identity | None = Field(default=None, description="Serial number")
    model: Identity | None = Field(default=None, description="Model, or a part of it")
    min_gb: int | None = Field(default=None, ge=1, le=1_000_000, description="GB, at least")
    max_gb: int | None = Field(default=None, ge=1, le=1_000_000, description="GB, at most")

    @model_validator(mode="after")
    def _bounds(self) -> Self:
        if self.min_gb and self.max_gb and self.min_gb > self.max_gb:
            raise ValueError("has a min_gb above its max_gb: no disk can match")
        return self


class ProvisionOptions(Model):
    """Installation of bare machines (docs/provision.md)."""

    image: File = Field(
        description="Folder created by appliance provision build, relative to the site's folder"
    )
    signers: File | None = Field(
        default=None,
        description="Accepted signers of images: an allowed_signers file (ssh-keygen); default: unsigned images are accepted",
    )
    disk: SystemDisk = Field(
        default=SystemDisk.model_construct(),
        description="System disk of hosts without a disk of their own; default: the only disk",
    )
    address: IPv4Address | None = Field(
        default=None,
        description="Address of the control machine for machines and BMCs; default: the one it reaches them with",
    )
    port: int = Field(default=8443, ge=1024, le=65535, description="Its port, always TLS")
