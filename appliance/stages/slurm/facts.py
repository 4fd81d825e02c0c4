"""What a host has for containers in Slurm jobs."""

from pydantic import Field

from appliance.models.base import Numerous
from appliance.models.fact_types import Count, Line, NodeName, Real


class Plugin(Numerous):
    """Pyxis as Slurm's plugin. ``help`` is None where srun could not be asked."""

    path: Line = Field(description="Of the plugin that was built here")
    there: bool = Field(description="The file is there, as it was built")
    configured: bool = Field(description="Slurm is told to load it")
    release: Line = Field(default="", description="Of Pyxis; empty: not known")
    built_for: Line = Field(description="Release of Slurm it was built for")
    offers: bool | None = Field(default=None, description="srun --help lists --container-image")
    problem: Line = Field(default="", description="What srun says instead of its help")


class Containers(Numerous):
    """enroot, what it needs of the host, and Pyxis."""

    slurm: Line = Field(default="", description="Release of Slurm's commands; empty: none")
    plugin: Plugin | None = None
    enroot: Line = Field(default="", description="Its version; empty: not installed")
    lacks: tuple[Line, ...] = Field(default=(), description="Programs it needs that are not there")
    kernel: dict[Line, Line] = Field(
        default_factory=dict, description="Parameters of the kernel that bear on user namespaces"
    )
    overlay: bool | None = Field(default=None, description="The kernel, or FUSE, has overlays")
    folder: Line = Field(default="", description="Of images and containers; empty: not set")
    free: Count | None = Field(default=None, description="Bytes free there")


class UnfitBy(Numerous):
    """One cause: the check that tells the same, the part, one line."""

    check: Line
    part: Line = ""
    cause: Line

    def __str__(self) -> str:
        """As it stands in Slurm's reason."""
        return " ".join(filter(None, [self.check, self.part + ":" * bool(self.part), self.cause]))


class Watch(Numerous):
    """What the host's own watch found last."""

    age_s: Real = Field(description="Seconds since it looked")
    causes: tuple[UnfitBy, ...] = Field(default=(), description="Why the host is unfit for work")
    gaps: tuple[Line, ...] = Field(default=(), description="What it could not judge")
    slurm: Line = Field(
        default="",
        description="out: takes no jobs; over: keeps them, for the bound; silent: slurmctld does not answer; empty: nothing was done",
    )
    returns: bool | None = Field(
        default=None,
        description="It is out by itself, for a fault that ends by itself; None: its watch is older and does not say",
    )
    held_by: Count | None = Field(
        default=None, description="Process of a look that does not end, so that no other one begins"
    )
    fit: bool | None = Field(
        default=None,
        description="What it says when asked now, where it is out and returns; None: not asked, or no answer",
    )


class SlurmNode(Numerous):
    """A node as slurmctld sees it."""

    name: NodeName
    state: Line
    reason: Line = ""
    gres: Line = ""
    cpus: Count = 0
    memory: Count = 0


class Slurm(Numerous):
    """Slurm as its own commands answer on this host."""

    version: Line = ""
    controller: Line = Field(default="", description="scontrol ping: up, down or its message")
    nodes: tuple[SlurmNode, ...] | None = Field(default=None, description="None: not read")
    accounting: bool | None = Field(
        default=None, description="slurmdbd answers and knows the cluster"
    )
