"""Facts of one host from the probe; plan, verify, health and report judge the same document."""

from enum import StrEnum

from pydantic import Field

from appliance.models.base import Model
from appliance.models.fact_types import (
    BusId,
    Count,
    Line,
    Moment,
    Number,
    PackageName,
    PackageVersion,
    Real,
    Stamp,
    StateText,
    SysctlKey,
    UnitName,
)
from appliance.models.facts_host import (
    Access,
    Clock,
    Cpu,
    Disk,
    Filesystem,
    Interface,
    KernelEvent,
    KernelModule,
    Memory,
    MemoryErrors,
    Neighbours,
    NumaNode,
    Nvme,
    Os,
    PcieErrors,
    Tuning,
)
from appliance.models.gap import Gap
from appliance.models.result import Kind
from appliance.models.text_types import Simulated
from appliance.models.watch import Watch
from appliance.stages.backup.facts import Backup
from appliance.stages.base.facts import Weekly
from appliance.stages.fabric.facts import Port, SubnetManager, Topology
from appliance.stages.gpu.facts import Gpus, Xid
from appliance.stages.kubernetes.facts import Ground, Kubernetes, Offer
from appliance.stages.limits.facts import Limits
from appliance.stages.mig.facts import MigDemand
from appliance.stages.observe.facts import HeldPort, Observe
from appliance.stages.scheduler.facts import SchedulerFacts
from appliance.stages.slurm.facts import Containers, Slurm

Resource = dict[StateText, StateText | Number | bool | list[StateText] | None]
"""Observed state of one managed resource: ``kind``, ``name`` and the fields of its kind."""


class Drift(Model):
    """A managed resource that has changed since its stage."""

    kind: Line
    name: Line
    expected: Line
    found: Line


class Receipt(Model):
    """What a finished stage left on the host, and what has changed since."""

    stage: Line
    fingerprint: Line
    written: Line
    run: Line
    appliance: Line
    resources: Count
    drift: tuple[Drift, ...] = ()
    unread: Count = Field(
        default=0, description="Resources that could not be compared; such a receipt proves nothing"
    )
    inputs: dict[Line, Line] = Field(
        default_factory=dict, description="Inputs of the stage: name -> digest"
    )
    versions: dict[PackageName, PackageVersion] = Field(
        default_factory=dict, description="Package versions after the stage"
    )


class Lease(Model):
    """The run that is changing the host, by its lease; ``owner``: the checkout it runs from."""

    owner: Line
    who: Line
    run: Line
    verb: Line
    since: Line


class Assignment(Model):
    """A value of a kernel parameter, and the last file that sets it."""

    value: Line
    file: Line


class Foreign(Model):
    """An unmanaged entry in a place that a stage owns. ``modified`` in s since the epoch."""

    kind: Line = Field(
        description="file, link, folder, changed, key, line, account, or more; for a system account password, shell, group or primary group"
    )
    at: Line
    owner: Line
    modified: Moment
    line: Line = Field(
        default="", description="Its first line, the target of a link, the key, or the group"
    )
    lines: Count = Field(default=0, description="Number of its lines that are not comments")
    end: str = Field(
        default="", pattern=r"^[A-Za-z0-9+/]{0,16}$", description="The last letters of a key"
    )


class Posture(Model):
    """The state of a host that no stage owns, for comparison with another day."""

    things: dict[Line, dict[Line, Line]] = Field(
        description="By kind (account, package, ...) the entries and their description; kinds that were not read are missing"
    )
    owned: tuple[Line, ...] = Field(
        default=(),
        description="Entries that stages own and judge themselves: a path, account X, unit X, package X",
    )


class Unit(Model):
    """A systemd unit: load, active, sub and unit-file state."""

    load: Line
    active: Line
    sub: Line = ""
    enabled: Line = ""


class ProblemKind(StrEnum):
    """What prevented the probe from reading something, if code depends on it."""

    OTHER = ""
    DENIED = "denied"
    UNANSWERED = "unanswered"
    IO_ERROR = "io_error"
    VERSION_MISMATCH = "version_mismatch"


class Problem(Model):
    """A part of an area that could not be read. ``at``: its path, "" for the area; ``text`` for people."""

    area: Line
    text: Line
    kind: ProblemKind = ProblemKind.OTHER
    at: Line = ""


class HostFacts(Model):
    """One probe's answer. ``simulated`` names areas with simulated hardware."""

    version: Number
    host: Line
    taken: Stamp
    cpu_seconds: Real
    user: Line
    printed: Line = Field(default="", description="What login scripts print before the answer")
    simulated: tuple[Simulated, ...] = ()
    errors: dict[Line, Line] = Field(
        default_factory=dict, description="Area -> why it could not be read"
    )
    problems: tuple[Problem, ...] = Field(
        default=(), description="Those of a known kind, or with a path"
    )
    os: Os
    modules: dict[Line, KernelModule] = Field(
        default_factory=dict, description="Loaded ones among those a stage installs or removes"
    )
    cpu: Cpu
    memory: Memory
    numa: tuple[NumaNode, ...] = ()
    disks: tuple[Disk, ...] = ()
    filesystems: tuple[Filesystem, ...] = ()
    interfaces: tuple[Interface, ...] = ()
    clock: Clock
    neighbours: Neighbours | None = Field(
        default=None, description="None: not requested, or not read"
    )
    access: Access | None = Field(default=None, description="None: not read")
    memory_errors: MemoryErrors | None = Field(default=None, description="None: not read")
    pcie_errors: PcieErrors | None = Field(default=None, description="None: not read")
    nvme: Nvme | None = Field(default=None, description="None: not read")
    tuning: Tuning | None = Field(default=None, description="None: not read")
    sysctl: dict[SysctlKey, Line] = Field(default_factory=dict)
    sysctl_at_boot: dict[SysctlKey, Assignment] | None = Field(
        default=None, description="Their values after the next boot; None: not read"
    )
    gpus: Gpus | None = None
    pci_gpus: Count | None = Field(default=None, description="NVIDIA GPUs on the PCI bus")
    pci_gpu_ids: tuple[BusId, ...] = Field(default=(), description="Their addresses, 0000:07:00.0")
    fabric_manager: Line | None = Field(
        default=None, description="Its own version; empty: not installed"
    )
    ports: tuple[Port, ...] = ()
    subnet_manager: SubnetManager | None = None
    topology: Topology | None = None
    units: dict[UnitName, Unit] = Field(default_factory=dict)
    packages: dict[PackageName, PackageVersion] = Field(default_factory=dict)
    nfs_client: Line = Field(default="", description='"kernel", "libnfs" or "" (none)')
    slurm: Slurm | None = None
    containers: Containers | None = None
    kubernetes: Kubernetes | None = None
    ground: Ground | None = Field(default=None, description="Needed by a cluster")
    offer: Offer | None = Field(
        default=None, description="Packages and images available for an upgrade"
    )
    scheduler: SchedulerFacts | None = None
    observe: Observe | None = None
    held_ports: tuple[HeldPort, ...] = Field(
        default=(), description="Ports of Prometheus that others hold, if it does not answer"
    )
    limits: Limits | None = None
    backup: Backup | None = None
    mig_demand: MigDemand | None = None
    watch: Watch | None = None
    node_watch: Watch | None = None
    weekly: Weekly | None = None
    xids: tuple[Line, ...] = ()
    xid_events: tuple[Xid, ...] | None = Field(
        default=None, description="The last Xid messages, oldest first; None: not read"
    )
    switch_events: tuple[Xid, ...] = Field(
        default=(), description="The last SXid messages of NVSwitches, as xid_events"
    )
    kernel_events: tuple[KernelEvent, ...] | None = Field(
        default=None, description="Failures in the kernel log; None: not read, or not its own"
    )
    kernel_log_span: Real | None = Field(
        default=None, description="Age in s of the oldest kernel message; None: since boot"
    )
    receipts: dict[Line, Receipt] = Field(default_factory=dict)
    lease: Lease | None = Field(default=None, description="None: no run is changing the host")
    foreign: tuple[Foreign, ...] | None = Field(
        default=None, description="Unmanaged entries in places of the stages; None: not read"
    )
    resources: tuple[Resource, ...] = Field(
        default=(), description="State of the requested resources"
    )
    posture: Posture | None = Field(default=None, description="None: not requested, or not read")

    def has(self, area: str, kind: ProblemKind) -> bool:
        """Whether an area has a problem of this kind."""
        return any((p.area, p.kind) == (area, kind) for p in self.problems)

    @property
    def is_system_unread(self) -> bool:
        """Whether the operating system is unknown, as in a container; then ``os`` is meaningless."""
        return "os" in self.errors and not self.os.kernel

    def gap(self, area: str, otherwise: str = "not read") -> Gap:
        """Why an area is unknown; ``otherwise``: if the probe gives no reason."""
        denied = self.has(area, ProblemKind.DENIED)
        return Gap(self.errors.get(area) or otherwise, kind=Kind.DENIED if denied else Kind.OTHER)
