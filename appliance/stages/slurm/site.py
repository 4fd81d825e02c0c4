"""The site's section ``slurm.containers``: enroot and Pyxis, from files whose content is pinned."""

from typing import Annotated

from pydantic import Field

from appliance.models.base import Model
from appliance.models.texts import (
    ABSOLUTE_PATH,
    PATH_LENGTH,
    SHA256,
    AccountName,
    Few,
    Many,
)

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
        pattern=ABSOLUTE_PATH,
        max_length=PATH_LENGTH,
        description="Folder of images and containers on GPU hosts; none: enroot on the scratch, else /var/lib/enroot",
    )
    benchmark: JobContainer | None = Field(
        default=None, description="What benchmark gpt3 trains in; none: on the hosts themselves"
    )


TIME_LIMIT = (
    r"^(UNLIMITED|[0-9]{1,6}(:[0-5][0-9]){0,2}|[0-9]{1,4}-([01]?[0-9]|2[0-3])(:[0-5][0-9]){0,2})$"
)


class Partition(Model):
    """A Slurm partition over all GPU hosts; time limit as Slurm writes it."""

    name: AccountName = Field(description="Name of the partition")
    default: bool = Field(default=False, description="Takes jobs that name no partition")
    max_time: str = Field(
        default="UNLIMITED", pattern=TIME_LIMIT, description="Longest job, as 2-00:00:00"
    )


DEFAULT_ACCOUNT = "default"
"""Whom no account names charges this one; in accounting it is a name like any other."""


class Account(Model):
    """A Slurm account and the users who may charge it."""

    name: AccountName = Field(description="Name of the account")
    users: Many[AccountName] = Field(default=(), description="Who may charge it")


class WatchOptions(Model):
    """GPU hosts judge themselves every minute, and drain where they are unfit for work."""

    most_out: int | None = Field(
        default=None,
        ge=0,
        le=10_000,
        description="Hosts that may be drained by their own judgement at the same time, 0 for none; "
        "none: a tenth of the GPU hosts, and one at least",
    )
    return_after_minutes: int | None = Field(
        default=10,
        ge=1,
        le=10_080,
        description="Minutes a host that drained itself must have been fit before it takes work again; never by itself after faults of "
        "a GPU; none: never by itself",
    )


class SlurmOptions(Model):
    """Stage slurm."""

    cluster: AccountName = Field(default="appliance", description="Name in accounting")
    partitions: Few[Partition] = Field(
        default=(Partition.model_construct(name="gpu", default=True),),
        description="Exactly one is the default",
    )
    accounts: Many[Account] = Field(
        default=(Account.model_construct(name=DEFAULT_ACCOUNT, users=("root",)),),
        description="Who pays; those of base.users whom none names charge default",
    )
    watch: WatchOptions = Field(default=WatchOptions(), description="When hosts drain themselves")
    containers: ContainerOptions | None = Field(
        default=None, description="Containers in jobs (Pyxis, enroot); none: no containers"
    )
    constrain: bool | None = Field(
        default=None,
        description="Jobs are held to their cores, memory and GPUs by cgroup v2, on all GPU hosts; none: unless most GPU hosts lack it",
    )
    ssh_needs_job: bool | None = Field(
        default=None,
        description="ssh to GPU hosts only for whom a job of theirs runs there, and only as long; root, admins, the account of access and members of sudo or wheel always; none: where base.users names somebody",
    )


WORDS = {
    TIME_LIMIT: ("a Slurm time limit", "UNLIMITED, minutes, H:MM:SS or D-HH:MM:SS"),
    IMAGE: (
        "an image",
        "as nvcr.io#nvidia/pytorch:26.01-py3 or /data/images/pytorch.sqsh",
    ),
    MOUNT: ("a mount", "as /data:/data or /data:/data:ro"),
    PACKAGE: ("a package's file", "a path that ends in .deb or .rpm"),
    ARCHIVE: ("an archive's file", "a path that ends in .tar.gz, .tgz or .tar.xz"),
}
"""What a text of each pattern is, and how to write one."""
