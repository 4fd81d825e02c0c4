"""What a host has for containers in Slurm jobs."""

from pydantic import Field

from appliance.models.base import Model


class Plugin(Model):
    """Pyxis as Slurm's plugin. ``help`` is None where srun could not be asked."""

    path: str = Field(description="Of the plugin that was built here")
    there: bool = Field(description="The file is there, as it was built")
    configured: bool = Field(description="Slurm is told to load it")
    release: str = Field(default="", description="Of Pyxis; empty: not known")
    built_for: str = Field(description="Release of Slurm it was built for")
    offers: bool | None = Field(default=None, description="srun --help lists --container-image")
    problem: str = Field(default="", description="What srun says instead of its help")


class Containers(Model):
    """enroot, what it needs of the host, and Pyxis."""

    slurm: str = Field(default="", description="Release of Slurm's commands; empty: none")
    plugin: Plugin | None = None
    enroot: str = Field(default="", description="Its version; empty: not installed")
    lacks: tuple[str, ...] = Field(default=(), description="Programs it needs that are not there")
    kernel: dict[str, str] = Field(
        default_factory=dict, description="Parameters of the kernel that bear on user namespaces"
    )
    overlay: bool | None = Field(default=None, description="The kernel, or FUSE, has overlays")
    folder: str = Field(default="", description="Of images and containers; empty: not set")
    free: int | None = Field(default=None, description="Bytes free there")
