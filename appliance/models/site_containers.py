"""The site's section ``slurm.containers``: enroot and Pyxis, from files whose content is pinned."""

from typing import Annotated

from pydantic import Field

from appliance.models.base import Model
from appliance.models.site_kubernetes import FOLDER
from appliance.models.texts import PATH_LENGTH, Few

SHA256 = r"^[0-9a-f]{64}$"
PACKAGE = r"^[A-Za-z0-9/][A-Za-z0-9._/+~-]*\.(deb|rpm)$"
ARCHIVE = r"^[A-Za-z0-9/][A-Za-z0-9._/+~-]*\.(tar\.gz|tgz|tar\.xz)$"

IMAGE = r"^[A-Za-z0-9/][A-Za-z0-9._/:#@+-]*$"
"""As Pyxis takes it: [USER@][REGISTRY#]NAME[:TAG], or the path of a squashfs file (Pyxis 0.24)."""
MOUNT = r"^/[A-Za-z0-9._/+@=-]*:/[A-Za-z0-9._/+@=-]*(:[a-z+-]+)?$"
"""SOURCE:TARGET[:FLAGS]; Pyxis parts several by commas."""

Digest = Annotated[str, Field(pattern=SHA256, description="As sha256sum prints it")]


class PinnedPackage(Model):
    """A package, and what its file must be."""

    file: str = Field(
        pattern=PACKAGE, max_length=1000, description="Path, relative to the site's folder"
    )
    sha256: Digest


class PinnedArchive(Model):
    """A source archive, and what it must be."""

    file: str = Field(
        pattern=ARCHIVE, max_length=1000, description="Path, relative to the site's folder"
    )
    sha256: Digest


class JobContainer(Model):
    """The container of a job."""

    image: str = Field(
        pattern=IMAGE,
        max_length=512,
        description="[REGISTRY#]NAME[:TAG], or the path of an image on the hosts",
    )
    mounts: Few[Annotated[str, Field(pattern=MOUNT, max_length=1000)]] = Field(
        default=(), description="What it sees of the host: /SOURCE:/TARGET"
    )


class ContainerOptions(Model):
    """Containers in Slurm jobs; their releases stand in ``software``."""

    enroot: Few[PinnedPackage] = Field(
        min_length=1, description="Packages of enroot for the hosts' system"
    )
    pyxis: PinnedArchive = Field(
        description="Source of Pyxis, built on each host for its own Slurm"
    )
    at: str | None = Field(
        default=None,
        pattern=FOLDER,
        max_length=PATH_LENGTH,
        description="Folder of images and containers on GPU hosts; none: enroot on the scratch, else /var/lib/enroot",
    )
    benchmark: JobContainer | None = Field(
        default=None, description="What benchmark gpt3 trains in; none: on the hosts themselves"
    )
