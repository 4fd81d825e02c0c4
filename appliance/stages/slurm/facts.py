"""Facts about containers in Slurm jobs."""

from pydantic import Field

from appliance.models.base import Model
from appliance.models.fact_types import Count, Line, NodeName, Real


class Plugin(Model):
    """Pyxis as Slurm's plugin. ``help`` is None if srun could not run."""

    path: Line = Field(description="Path of the plugin that was built on this host")
    there: bool = Field(description="The file exists and is unchanged since its build")
    configured: bool = Field(description="Slurm's configuration loads it")
    release: Line = Field(default="", description="Release of Pyxis; empty: unknown")
    built_for: Line = Field(description="Release of Slurm it was built for")
    offers: bool | None = Field(default=None, description="srun --help lists --container-image")
    problem: Line = Field(default="", description="Error of srun --help")


class Containers(Model):
    """enroot, its requirements, and Pyxis."""

    slurm: Line = Field(default="", description="Release of Slurm's commands; empty: none")
    plugin: Plugin | None = None
    enroot: Line = Field(default="", description="Its version; empty: not installed")
    lacks: tuple[Line, ...] = Field(default=(), description="Required programs that are missing")
    kernel: dict[Line, Line] = Field(
        default_factory=dict, description="Kernel parameters that affect user namespaces"
    )
    overlay: bool | None = Field(default=None, description="The kernel, or FUSE, supports overlays")
    folder: Line = Field(default="", description="Folder of images and containers; empty: not set")
    free: Count | None = Field(default=None, description="Bytes free there")


class SlurmNode(Model):
    """A node as slurmctld sees it."""

    name: NodeName
    state: Line
    reason: Line = ""
    gres: Line = ""
    cpus: Count = 0
    memory: Count = 0


class SlurmPartition(Model):
    """A partition as slurmctld uses it now; ``settings`` as ``scontrol show partition`` prints them."""

    name: Line
    state: Line
    nodes: Count = 0
    jobs: Count | None = Field(
        default=0,
        description="Jobs that run or wait in it; counted if the site does not list it. None: squeue failed",
    )
    settings: dict[Line, Line] = Field(
        default_factory=dict, description="Those that exclude users or delay jobs"
    )


class Reservation(Model):
    """A reservation as ``scontrol show reservation`` prints it."""

    name: Line
    active: bool = False
    users: Line = ""
    accounts: Line = ""
    nodes: Line = ""
    node_count: Count = 0
    flags: Line = ""
    ends: Line = ""
    duration: Line = ""


class Association(Model):
    """A row of Slurm's accounting: an account, or a user in it (``user`` is empty for the account itself)."""

    account: Line
    user: Line = ""
    qos: tuple[Line, ...] = ()
    default_qos: Line = Field(default="", description="Empty: normal, the default QOS of Slurm")
    zero: tuple[Line, ...] = Field(
        default=(), description="Limits that prevent every job, such as gres/gpu=0"
    )


class Submission(Model):
    """Slurm's answer to a test submission of a user (``sbatch --test-only``)."""

    user: Line
    partition: Line
    refused: Line = Field(default="", description="Empty: Slurm would accept the job")


class StuckJob(Model):
    """A job that has ended, while processes of it have not."""

    job: Line
    nodes: Line
    seconds: Real = Field(description="Since its end")


class Slurm(Model):
    """Slurm as its own commands answer on this host."""

    version: Line = ""
    cluster: Line = Field(
        default="", description="Name in slurmctld's state, which it compares with slurm.conf"
    )
    controller: Line = Field(default="", description="scontrol ping: up, down or its message")
    nodes: tuple[SlurmNode, ...] | None = Field(default=None, description="None: not read")
    partitions: tuple[SlurmPartition, ...] | None = Field(
        default=None, description="None: not read"
    )
    reservations: tuple[Reservation, ...] | None = Field(default=None, description="None: not read")
    associations: tuple[Association, ...] | None = Field(
        default=None, description="Accounts of this cluster; None: not read"
    )
    qos: dict[Line, tuple[Line, ...]] = Field(
        default_factory=dict, description="QOS with limits that prevent every job, and these limits"
    )
    submissions: tuple[Submission, ...] | None = Field(
        default=None, description="None: no user for a test job, or not requested"
    )
    configured: Line = Field(
        default="",
        description="slurmctld's digest of slurm.conf, if it differs from the file; else empty",
    )
    stuck: tuple[StuckJob, ...] = ()
    read_only: bool | None = Field(
        default=None, description="The database accepts no records; None: not on this host"
    )
    accounting: bool | None = Field(
        default=None, description="slurmdbd answers and knows the cluster"
    )
