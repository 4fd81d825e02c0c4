"""The site's section ``base``: people, time, firewall, mirrors."""

from typing import Annotated, Literal

from pydantic import Field

from appliance.models.base import Model
from appliance.models.texts import (
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
"""As scheduler.projects[].users names people."""

FIRST, LAST = 1000, 2_000_000_000
"""Numbers of people: those below are the system's (login.defs(5), SYS_UID_MAX)."""


class Admin(Model):
    """A person who may log in to every host."""

    name: AccountName = Field(description="Account made on every host")
    keys: Few[PublicKey] = Field(min_length=1, description="OpenSSH public keys")
    sudo: bool = Field(default=True, description="May become root")


class Group(Model):
    """A group that is the same on every host."""

    name: AccountName = Field(description="Group made on every host")
    gid: int = Field(ge=FIRST, le=LAST, description="Its number there")


class User(Model):
    """Somebody who works on the cluster, and administers nothing."""

    name: AccountName = Field(description="Account made on every host")
    uid: int = Field(
        ge=FIRST,
        le=LAST,
        description="Its number there, and that of the group of the same name: files on a server belong to numbers",
    )
    groups: Few[AccountName] = Field(default=(), description="Names of base.groups")
    keys: Few[PublicKey] = Field(min_length=1, description="OpenSSH public keys")
    cluster_user: Annotated[str, Field(pattern=CLUSTER_USER)] | None = Field(
        default=None,
        description="Name in Kubernetes, as scheduler.projects[].users or OIDC has it; none: the account's",
    )
    shell: AbsolutePath = Field(default="/bin/bash", description="Shell")


class Logs(Model):
    """Where the hosts send what they log, by syslog over TCP (RFC 5424, RFC 5425)."""

    to: Server = Field(description="Who takes them")
    port: int = Field(default=6514, ge=1, le=65535, description="Its port")
    ca: str | None = Field(
        default=None,
        pattern=CERTIFICATES,
        max_length=16_000,
        description="Certificates of its authority, PEM: sent by TLS, to that name alone; none: unencrypted",
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
    """From which version on something has the mends that its maker has told of."""

    of: Advised = Field(description="A package, the driver, or the kernel by its uname -r")
    system: System | Literal[""] = Field(
        default="",
        description="Of a package of the distribution and of its kernel the release; none: of the maker's own",
    )
    fixed: Few[VersionText] = Field(
        min_length=1, description="The first version with the mends, for each branch"
    )
    source: Line = Field(min_length=1, description="Who says so: a bulletin, a notice, an archive")
    looked: Day = Field(description="When somebody looked whether there is anything newer")


class BaseOptions(Model):
    """Stage base."""

    timezone: Zone = Field(default="Etc/UTC", description="As Europe/Berlin")
    ntp_servers: Few[Server] = Field(
        default=(), description="Empty: the first control host serves time to the others"
    )
    admins: Many[Admin] = Field(default=(), description="People who run the cluster")
    users: Many[User] = Field(default=(), description="People who work on it")
    groups: Many[Group] = Field(default=(), description="What users share files by")
    homes: AbsolutePath = Field(
        default="/home",
        description="Folder of users' homes; at or below one of storage.mounts they are made on the storage host, once for all",
    )
    banner: Few[Line] = Field(
        default=(),
        description="Lines that whoever logs in reads first, by ssh and on the console; a lawyer's words",
    )
    strict: bool = Field(
        default=False,
        description="Also what people notice: no core files, umask 027, shells end when idle for 15 minutes, ssh lets in the site's accounts alone, forwards no agent and no port of the host, three keys a login; rules for passwords, no sticks, nothing is started from /dev/shm, AIDE once a week",
    )
    tools: Few[Literal["everyday", "modules", "perf"]] = Field(
        default=(),
        description="Packages of the distribution that people expect: everyday (git, curl, wget, vim, nano, tmux, jq, Python's venv), modules (Lmod), perf",
    )
    profiling: bool = Field(
        default=False,
        description="Profilers of GPUs and processors work for everybody, not for root alone: for hosts that one person has at a time",
    )
    logs: Logs | None = Field(
        default=None, description="Where logs go, too; none: they stay on the hosts"
    )
    firewall: bool = Field(
        default=True,
        description="Let in only what the site needs; false: nothing is filtered but who may ask Prometheus and exporters, and firewalld and ufw are stopped all the same",
    )
    advisories: Many[Advisory] = Field(
        default=(),
        description="Versions with the mends of security bulletins that are newer than this program; of two rows of the same the one that was looked at last counts",
    )
    keep: Many[Kept] = Field(
        default=(),
        description="Strangers in the appliance's places that may stay: paths (with *), SHA256:... of keys of root's, account NAME",
    )
    purge: bool = Field(
        default=False,
        description="Deployments move files that nobody named out of these places, to /var/lib/appliance/purged",
    )
    mirror: MirrorUrl | None = Field(
        default=None,
        description="Package mirror to write into the hosts' sources (RHEL: EPEL's); none: they keep theirs",
    )
    security_mirror: MirrorUrl | None = Field(
        default=None, description="Mirror of the security updates, where that is another one"
    )
