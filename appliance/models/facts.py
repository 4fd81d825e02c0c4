"""What the probe found on one host; the same document is judged by plan, verify, health and report."""

from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, Field

from appliance.models.base import Numerous, shared, slim
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
    Clock,
    Cpu,
    Disk,
    Filesystem,
    Interface,
    KernelModule,
    Memory,
    MemoryErrors,
    NumaNode,
    Nvme,
    Os,
    PcieErrors,
)
from appliance.models.gap import Gap
from appliance.models.result import Kind
from appliance.stages.base.facts import Weekly
from appliance.stages.fabric.facts import Port, SubnetManager, Topology
from appliance.stages.gpu.facts import Gpus, Xid
from appliance.stages.kubernetes.facts import Ground, Kubernetes
from appliance.stages.limits.facts import Limits
from appliance.stages.mig.facts import MigDemand
from appliance.stages.observe.facts import Observe
from appliance.stages.scheduler.facts import SchedulerFacts
from appliance.stages.slurm.facts import Containers, Slurm, Watch

Resource = dict[StateText, StateText | Number | bool | list[StateText] | None]
"""Observed state of one managed resource: ``kind``, ``name`` and the fields of its kind."""


class Drift(Numerous):
    """A managed resource that is not as its stage left it."""

    kind: Line
    name: Line
    expected: Line
    found: Line


class Receipt(Numerous):
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
    inputs: Annotated[dict[Line, Line], AfterValidator(shared)] = Field(
        default_factory=dict, description="What the stage was applied with: name -> digest"
    )
    versions: dict[PackageName, PackageVersion] = Field(
        default_factory=dict, description="Package versions the stage left"
    )


class Lease(Numerous):
    """The run that changes the host now, in words of the host; ``owner``: the checkout it runs from."""

    owner: Line
    who: Line
    run: Line
    verb: Line
    since: Line


class Assignment(Numerous):
    """A value of a kernel parameter, and the file that sets it last."""

    value: Line
    file: Line


class Foreign(Numerous):
    """Something in a place a stage owns that is nobody's there. ``modified`` in s since the epoch."""

    kind: Line = Field(
        description="file, link, folder, changed, key, line, account, or more; of an account of the system password, shell, group or primary group"
    )
    at: Line
    owner: Line
    modified: Moment
    line: Line = Field(
        default="", description="Its first line, where a link leads, the key, or the group"
    )
    lines: Count = Field(default=0, description="How many lines of it say something")


class Posture(Numerous):
    """What a host is beside its stages, for comparing with another day."""

    things: dict[Line, dict[Line, Line]] = Field(
        description="By kind (account, package, ...) what there is, and what is told of each; a kind that was not read lacks"
    )
    owned: tuple[Line, ...] = Field(
        default=(),
        description="What stages left and judge themselves: a path, account X, unit X, package X",
    )


class Unit(Numerous):
    """A systemd unit: load, active, sub and unit-file state."""

    load: Line
    active: Line
    sub: Line = ""
    enabled: Line = ""


class ProblemKind(StrEnum):
    """What kept the probe from reading something, where something hangs on it."""

    OTHER = ""
    DENIED = "denied"
    UNANSWERED = "unanswered"
    IO_ERROR = "io_error"
    VERSION_MISMATCH = "version_mismatch"


class Problem(Numerous):
    """A part of an area that could not be read. ``at``: a path it is about, "" for the area; ``text`` for people."""

    area: Line
    text: Line
    kind: ProblemKind = ProblemKind.OTHER
    at: Line = ""


class HostFacts(Numerous):
    """One probe's answer. ``simulated`` names areas whose hardware is simulated."""

    version: Number
    host: Line
    taken: Stamp
    cpu_seconds: Real
    user: Line
    simulated: tuple[Line, ...] = ()
    errors: dict[Line, Line] = Field(
        default_factory=dict, description="Area -> why it could not be read"
    )
    problems: tuple[Problem, ...] = Field(
        default=(), description="Those of them of a known kind, or about a path"
    )
    os: Os
    modules: dict[Line, KernelModule] = Field(
        default_factory=dict, description="Loaded ones among those a stage brings or evicts"
    )
    cpu: Cpu
    memory: Memory
    numa: tuple[NumaNode, ...] = ()
    disks: tuple[Disk, ...] = ()
    filesystems: tuple[Filesystem, ...] = ()
    interfaces: tuple[Interface, ...] = ()
    clock: Clock
    memory_errors: Annotated[MemoryErrors, AfterValidator(shared)] | None = Field(
        default=None, description="None: not read"
    )
    pcie_errors: Annotated[PcieErrors, AfterValidator(shared)] | None = Field(
        default=None, description="None: not read"
    )
    nvme: Annotated[Nvme, AfterValidator(shared)] | None = Field(
        default=None, description="None: not read"
    )
    sysctl: dict[SysctlKey, Line] = Field(default_factory=dict)
    sysctl_at_boot: dict[SysctlKey, Assignment] | None = Field(
        default=None, description="What the next boot makes of them; None: not read"
    )
    gpus: Gpus | None = None
    pci_gpus: Count | None = Field(default=None, description="NVIDIA GPUs on the PCI bus")
    pci_gpu_ids: tuple[BusId, ...] = Field(default=(), description="Their addresses, 0000:07:00.0")
    fabric_manager: Line | None = Field(
        default=None, description="Its own version; empty: not installed"
    )
    ports: tuple[Annotated[Port, AfterValidator(slim)], ...] = ()
    subnet_manager: SubnetManager | None = None
    topology: Topology | None = None
    units: dict[UnitName, Annotated[Unit, AfterValidator(shared)]] = Field(default_factory=dict)
    packages: dict[PackageName, PackageVersion] = Field(default_factory=dict)
    nfs_client: Line = Field(default="", description='"kernel", "libnfs" or "" (none)')
    slurm: Slurm | None = None
    containers: Containers | None = None
    kubernetes: Kubernetes | None = None
    ground: Ground | None = Field(default=None, description="What a cluster is built on")
    scheduler: SchedulerFacts | None = None
    observe: Observe | None = None
    limits: Limits | None = None
    mig_demand: MigDemand | None = None
    watch: Watch | None = None
    weekly: Weekly | None = None
    xids: tuple[Line, ...] = ()
    xid_events: tuple[Xid, ...] | None = Field(
        default=None, description="The last Xid messages, oldest first; None: not read"
    )
    switch_events: tuple[Xid, ...] = Field(
        default=(), description="The last SXid messages of NVSwitches, as xid_events"
    )
    kernel_log_span: Real | None = Field(
        default=None, description="Age in s of the oldest kernel message; None: since boot"
    )
    receipts: dict[Line, Receipt] = Field(default_factory=dict)
    lease: Lease | None = Field(default=None, description="None: nobody changes the host now")
    foreign: tuple[Foreign, ...] | None = Field(
        default=None, description="What nobody put into places of the stages; None: not looked"
    )
    resources: tuple[Resource, ...] = Field(
        default=(), description="State of the resources asked for"
    )
    posture: Posture | None = Field(default=None, description="None: nobody asked, or not read")

    def has(self, area: str, kind: ProblemKind) -> bool:
        """Whether an area has a problem of this kind."""
        return any((p.area, p.kind) == (area, kind) for p in self.problems)

    @property
    def is_system_unread(self) -> bool:
        """Whether it is not known what the host is, a container for example; what stands in ``os`` says nothing then."""
        return "os" in self.errors and not self.os.kernel

    def gap(self, area: str, otherwise: str = "not read") -> Gap:
        """Why an area is not known; ``otherwise``: where the probe says nothing."""
        denied = self.has(area, ProblemKind.DENIED)
        return Gap(self.errors.get(area) or otherwise, kind=Kind.DENIED if denied else Kind.OTHER)
