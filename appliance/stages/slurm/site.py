"""The site's section ``slurm``; with ``slurm.containers``: enroot and Pyxis, from files pinned by their digest."""

from typing import Annotated

from pydantic import Field

from appliance.models.base import Model
from appliance.models.text_types import (
    ABSOLUTE_PATH,
    PATH_LENGTH,
    SHA256,
    AccountName,
    Few,
    Many,
)
from appliance.models.watch import WatchOptions

PACKAGE = r"^[A-Za-z0-9/][A-Za-z0-9._/+~-]*\.(deb|rpm)$"
ARCHIVE = r"^[A-Za-z0-9/][A-Za-z0-9._/+~-]*\.(tar\.gz|tgz|tar\.xz)$"

IMAGE = r"^[A-Za-z0-9/][A-Za-z0-9._/:#@+-]*$"
"""In the notation of Pyxis: [USER@][REGISTRY#]NAME[:TAG], or the path of a squashfs file (Pyxis 0.24)."""
MOUNT = r"^/[A-Za-z0-9._/+@=-]*:/[A-Za-z0-9._/+@=-]*(:[a-z+-]+)?$"
"""SOURCE:TARGET[:FLAGS]; Pyxis separates several by commas."""

Digest = Annotated[str, Field(pattern=SHA256, description="As printed by sha256sum")]


class PinnedPackage(Model):
    """A package file and its digest."""

    file: str = Field(
        pattern=PACKAGE, max_length=1000, description="Path, relative to the site's folder"
    )
    sha256: Digest


class PinnedArchive(Model):
    """A source archive and its digest."""

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
        default=(), description="Mounts from the host: /SOURCE:/TARGET"
    )


class ContainerOptions(Model):
    """Containers in Slurm jobs; their releases are set in ``software``."""

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
        description="Folder of images and containers on GPU hosts; default: enroot on the scratch, else /var/lib/enroot",
    )
    benchmark: JobContainer | None = Field(
        default=None,
        description="Container of benchmark gpt3; default: none, on the hosts themselves",
    )


TIME_LIMIT = (
    r"^(UNLIMITED|[0-9]{1,6}(:[0-5][0-9]){0,2}|[0-9]{1,4}-([01]?[0-9]|2[0-3])(:[0-5][0-9]){0,2})$"
)


class Partition(Model):
    """A Slurm partition over all GPU hosts; time limit in Slurm's notation."""

    name: AccountName = Field(description="Name of the partition")
    default: bool = Field(default=False, description="Partition of jobs that name none")
    max_time: str = Field(
        default="UNLIMITED",
        pattern=TIME_LIMIT,
        description="Time limit of jobs, such as 2-00:00:00",
    )


DEFAULT_ACCOUNT = "default"
"""The account of users that no account lists; in accounting it is a normal name."""


class Account(Model):
    """A Slurm account and the users who may charge it."""

    name: AccountName = Field(description="Name of the account")
    users: Many[AccountName] = Field(default=(), description="Users who may charge it")


class SlurmOptions(Model):
    """Stage slurm."""

    cluster: AccountName = Field(default="appliance", description="Name in accounting")
    partitions: Few[Partition] = Field(
        default=(Partition.model_construct(name="gpu", default=True),),
        description="Exactly one is the default",
    )
    accounts: Many[Account] = Field(
        default=(Account.model_construct(name=DEFAULT_ACCOUNT, users=("root",)),),
        description="Accounts to charge; users of base.users without an account are charged to default",
    )
    watch: WatchOptions = Field(default=WatchOptions(), description="When hosts drain themselves")
    containers: ContainerOptions | None = Field(
        default=None, description="Containers in jobs (Pyxis, enroot); default: no containers"
    )
    constrain: bool | None = Field(
        default=None,
        description="Limit jobs to their cores, memory and GPUs with cgroup v2, on all GPU hosts; default: unless most GPU hosts lack it",
    )
    ssh_needs_job: bool | None = Field(
        default=None,
        description="Allow ssh to a GPU host only for users with a running job there, and only while it runs; root, admins, the account of access and members of sudo or wheel always; default: if base.users lists anyone",
    )


WORDS = {
    TIME_LIMIT: ("a Slurm time limit", "UNLIMITED, minutes, H:MM:SS or D-HH:MM:SS"),
    IMAGE: (
        "an image",
        "such as nvcr.io#nvidia/pytorch:26.01-py3 or /data/images/pytorch.sqsh",
    ),
    MOUNT: ("a mount", "such as /data:/data or /data:/data:ro"),
    PACKAGE: ("a package's file", "a path that ends in .deb or .rpm"),
    ARCHIVE: ("an archive's file", "a path that ends in .tar.gz, .tgz or .tar.xz"),
}
"""For each pattern, the kind of text and an example."""
