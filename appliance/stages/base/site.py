"""The site's section ``base``: people, time, firewall, mirrors."""

from typing import Annotated, Literal

from pydantic import Field

from appliance.models.base import Model
from appliance.models.text_types import (
    CERTIFICATES,
    AbsolutePath,
    AccountName,
    Day,
    Few,
    Kept,
    Line,
    Many,
    MirrorUrl,
    PublicKey,
    Server,
    System,
    VersionText,
    Zone,
)

CLUSTER_USER = r"^/?[A-Za-z0-9][A-Za-z0-9@._:/+-]{0,251}$"
"""Names of people in scheduler.projects[].users."""

FIRST, LAST = 1000, 2_000_000_000
"""User numbers of people: smaller ones belong to the system (login.defs(5), SYS_UID_MAX)."""


class Admin(Model):
    """An admin, who may log in to every host."""

    name: AccountName = Field(description="Account created on every host")
    keys: Few[PublicKey] = Field(min_length=1, description="OpenSSH public keys")
    sudo: bool = Field(default=True, description="May become root")


class Group(Model):
    """A group that is the same on every host."""

    name: AccountName = Field(description="Group created on every host")
    gid: int = Field(ge=FIRST, le=LAST, description="Its gid on every host")


class User(Model):
    """A user of the cluster without administrator rights."""

    name: AccountName = Field(description="Account created on every host")
    uid: int = Field(
        ge=FIRST,
        le=LAST,
        description="Its uid, and the gid of its group of the same name; files on a server belong to numbers",
    )
    groups: Few[AccountName] = Field(default=(), description="Names of base.groups")
    keys: Few[PublicKey] = Field(min_length=1, description="OpenSSH public keys")
    cluster_user: Annotated[str, Field(pattern=CLUSTER_USER)] | None = Field(
        default=None,
        description="User name in Kubernetes, as in scheduler.projects[].users or from OIDC; default: the account's name",
    )
    shell: AbsolutePath = Field(default="/bin/bash", description="Shell")


class Logs(Model):
    """Central log server, by syslog over TCP (RFC 5424, RFC 5425)."""

    to: Server = Field(description="Name or address of the log server")
    port: int = Field(default=6514, ge=1, le=65535, description="Its port")
    ca: str | None = Field(
        default=None,
        pattern=CERTIFICATES,
        max_length=16_000,
        description="CA certificates, PEM; with them logs are sent over TLS to that server name only; default: unencrypted",
    )


Advised = Literal[
    "nvidia-driver",
    "nvidia-container-toolkit",
    "datacenter-gpu-manager-4-core",
    "datacenter-gpu-manager-exporter",
    "containerd",
    "containerd.io",
    "runc",
    "kernel",
]


class Advisory(Model):
    """The first version of a component that fixes its vendor's known vulnerabilities."""

    of: Advised = Field(description="A package, the driver, or the kernel by its uname -r")
    system: System | Literal[""] = Field(
        default="",
        description="Release of the distribution, for its packages and kernel; default: the vendor's own versions",
    )
    fixed: Few[VersionText] = Field(
        min_length=1, description="The first fixed version of each branch"
    )
    source: Line = Field(min_length=1, description="Source: a bulletin, a notice, an archive")
    looked: Day = Field(description="Date of the last review for newer versions")


class BaseOptions(Model):
    """Stage base."""

    timezone: Zone = Field(default="Etc/UTC", description="Such as Europe/Berlin")
    ntp_servers: Few[Server] = Field(
        default=(), description="Default: the first control host serves time to the others"
    )
    admins: Many[Admin] = Field(default=(), description="Administrators of the cluster")
    users: Many[User] = Field(default=(), description="Users of the cluster")
    groups: Many[Group] = Field(default=(), description="Groups of users who share files")
    homes: AbsolutePath = Field(
        default="/home",
        description="Folder of users' homes; if it is at or below one of storage.mounts, homes are created once, on the storage host",
    )
    banner: Few[Line] = Field(
        default=(),
        description="Text shown before and at logins, by ssh and on the console, such as a legal notice",
    )
    strict: bool = Field(
        default=False,
        description="Also rules that users notice: no core files, umask 027, idle shells end after 15 minutes, ssh allows only the site's accounts, no agent or port forwarding, three keys per login; password rules, no USB storage, no execution from /dev/shm, AIDE once a week",
    )
    tools: Few[Literal["everyday", "modules", "mpi", "perf"]] = Field(
        default=(),
        description="Sets of common packages of the distribution: everyday (git, curl, wget, vim, nano, tmux, jq, Python's venv), modules (Lmod), mpi (compilers and Open MPI), perf",
    )
    profiling: bool = Field(
        default=False,
        description="Allow profilers of GPUs and processors for all users, not only for root: for hosts used by one person at a time",
    )
    logs: Logs | None = Field(
        default=None, description="Central log server; default: logs stay on the hosts"
    )
    firewall: bool = Field(
        default=True,
        description="Allow only the traffic that the site needs; false: only access to Prometheus and exporters is filtered, but firewalld and ufw are still stopped",
    )
    advisories: Many[Advisory] = Field(
        default=(),
        description="Fixed versions from security bulletins that are newer than this program; of two entries for the same component, the one reviewed last counts",
    )
    keep: Many[Kept] = Field(
        default=(),
        description="Unmanaged entries in the appliance's places that are accepted: paths (with *), SHA256:... of root's keys, account NAME",
    )
    purge: bool = Field(
        default=False,
        description="Deployments move unlisted files from these places to /var/lib/appliance/purged",
    )
    mirror: MirrorUrl | None = Field(
        default=None,
        description="Package mirror to configure on the hosts (RHEL: of EPEL); default: unchanged",
    )
    security_mirror: MirrorUrl | None = Field(
        default=None, description="Mirror of the security updates, if different"
    )
