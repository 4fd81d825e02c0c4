"""How the machines of a site get their system: the image, the disk it goes to, and where it is fetched from."""

from ipaddress import IPv4Address
from typing import Annotated, Self

from pydantic import Field, model_validator

from appliance.models.base import Model
from appliance.models.texts import File

PLACE = r"^[A-Za-z0-9][A-Za-z0-9.:_-]{0,199}$"
"""A name in /dev/disk/by-path (udev's persistent storage rules)."""
IDENTITY = r"^[A-Za-z0-9][A-Za-z0-9 ._:/+-]{0,63}$"
"""A serial number, a WWN or a model, as lsblk shows it."""

Identity = Annotated[str, Field(pattern=IDENTITY)]


class SystemDisk(Model):
    """The disk that takes the system. All that is given must be true of exactly one disk of the machine."""

    path: str | None = Field(
        default=None, pattern=PLACE, description="Its place: a name in /dev/disk/by-path"
    )
    wwn: Identity | None = Field(default=None, description="World Wide Name, as lsblk shows it")
    serial: Identity | None = Field(default=None, description="Serial number")
    model: Identity | None = Field(default=None, description="Model, or a part of it")
    min_gb: int | None = Field(default=None, ge=1, le=1_000_000, description="GB, at least")
    max_gb: int | None = Field(default=None, ge=1, le=1_000_000, description="GB, at most")

    @model_validator(mode="after")
    def _bounds(self) -> Self:
        if self.min_gb and self.max_gb and self.min_gb > self.max_gb:
            raise ValueError("has a min_gb above its max_gb: no disk fits")
        return self


class ProvisionOptions(Model):
    """Systems for bare machines (docs/provision.md)."""

    image: File = Field(
        description="Folder that appliance provision build made, relative to the site's folder"
    )
    signers: File | None = Field(
        default=None,
        description="Who may sign images: an allowed_signers file (ssh-keygen); none: unsigned ones are taken",
    )
    disk: SystemDisk = Field(
        default=SystemDisk.model_construct(),
        description="The system's disk of each host that names none; none: the only disk there is",
    )
    address: IPv4Address | None = Field(
        default=None,
        description="Address of the control machine that machines and controllers fetch from; none: the one it reaches them with",
    )
    port: int = Field(default=8443, ge=1024, le=65535, description="Port there, always over TLS")
