"""The documents that verbs print with --json, and which command prints each."""

from typing import Any, Literal

from pydantic import AwareDatetime, Field

from appliance.models.acceptance import GateState
from appliance.models.base import Document, Model
from appliance.models.bmc import BmcFacts
from appliance.models.handover import Difference
from appliance.models.images import RunningImage
from appliance.models.line import Line
from appliance.models.plan import Plan
from appliance.models.queue_plan import QueueTree
from appliance.models.result import CheckResult, Measurement, Value, Verdict
from appliance.models.run import StageOutcome, Table
from appliance.models.waiver import Waiver
from appliance.stages.fabric.facts import FabricNode, Link


class Health(Document):
    """The site as judged. ``seconds`` of wall time; ``report``: its path, None if none was kept."""

    site: Line
    verdict: Verdict
    seconds: float
    simulated: tuple[Line, ...] = Field(description="Areas of hardware that are simulated here")
    results: tuple[CheckResult, ...]
    waivers: tuple[Waiver, ...] = ()
    report: str | None = None
    since: str | None = Field(default=None, description="Reference of the comparison")
    differences: tuple[Difference, ...] | None = None
    outdated: tuple[Line, ...] = Field(
        default=(),
        description="Stages with findings that another release of the program deployed",
    )
    taken: AwareDatetime | None = Field(
        default=None, description="With --bundle: when the hosts were read"
    )


class BundledHost(Model):
    """What a support bundle has of a host. ``cause``: why it has nothing; ``missing``: what was cut or left out, and why."""

    host: Line
    files: int
    size: int = Field(description="Bytes")
    seconds: float
    missing: dict[Line, Line]
    cause: Line


class SupportBundle(Document):
    """A support bundle. ``size`` in bytes; ``missing``: parts of the site itself."""

    site: Line
    file: str
    size: int
    verdict: Verdict
    hosts: tuple[BundledHost, ...]
    missing: tuple[Line, ...] = ()


class HistoryRun(Model):
    """A run that changed the site or held its lock. ``who``: user and machine, "" if an earlier release did not record it."""

    run: Line
    verb: Line
    who: Line
    scope: Line = Field(description="Options that limited the run, as typed")
    appliance: Line = Field(description="Release of the program")
    started: AwareDatetime
    finished: AwareDatetime | None
    outcome: Line = Field(
        description="Verdict, done, failed, refused, declined, interrupted or unfinished"
    )
    changed: dict[Line, tuple[Line, ...]] = Field(
        description="Hosts by stage on which it changed something"
    )
    failed: dict[Line, tuple[Line, ...]] = Field(description="Hosts by stage that failed")


class History(Document):
    """Who changed the site, and when; the newest run last."""

    runs: tuple[HistoryRun, ...]


class TriedEvidence(Model):
    """Evidence for a gate, genuine or forged, and whether the gate judged it correctly."""

    gate: Line
    case: Line
    state: GateState
    why: Line
    good: bool


class SelfTest(Document):
    """Every gate with all forged evidence. ``blocked``: gates that no evidence closes, and why."""

    site: Line
    profile: Line
    good: bool
    tried: tuple[TriedEvidence, ...]
    blocked: dict[str, str]


class GivenWaiver(Waiver):
    """A waiver, and whether it is valid today."""

    counts: bool


class Waivers(Document):
    """Waivers of a site that were not withdrawn."""

    site: Line
    waivers: tuple[GivenWaiver, ...]


class Machines(Document):
    """Answers of BMCs. ``seconds`` of wall time; ``report``: its path, None if none was kept."""

    site: Line
    verdict: Verdict
    seconds: float
    machines: dict[Line, BmcFacts] = Field(description="By host, for BMCs that answered")
    results: tuple[CheckResult, ...]
    report: str | None = None


class Trial(Document):
    """Results of a trial on a cluster, one per promise or add-on."""

    verdict: Verdict
    results: tuple[CheckResult, ...]


class TrainingLogs(Document):
    """Results of training logs, judged by a profile and not stored."""

    verdict: Verdict
    results: tuple[CheckResult, ...]
    measurements: tuple[Measurement, ...]
    tables: tuple[Table, ...]


class Measurements(Document):
    """Results of a benchmark without a site, judged and not stored."""

    verdict: Verdict
    results: tuple[CheckResult, ...]
    measurements: tuple[Measurement, ...]
    tables: tuple[Table, ...]


class PublishedTables(Document):
    """Published tables as printed, with the inconsistencies in them."""

    tables: tuple[Table, ...]


class ForeignAudit(Document):
    """An audit by another program, stored in the site's journal: what it reports as wrong or doubtful."""

    site: Line
    run: Line
    table: Table


class FabricPort(Model):
    """A port of a host, Gb/s, and the switch port at the other end of its cable; None: discovery did not find it."""

    host: Line
    device: Line
    port: int
    state: Line
    physical: Line
    rate_gbps: float
    switch: Line | None
    switch_port: int | None


class Fabric(Document):
    """The fabric as discovered now. ``seen_from``: the host that ran the discovery; ``silent``: hosts without an answer."""

    site: Line
    seen_from: Line
    simulated: bool
    silent: tuple[Line, ...]
    ports: tuple[FabricPort, ...]
    hcas: tuple[FabricNode, ...]
    switches: tuple[FabricNode, ...]
    links: tuple[Link, ...]


class Block(Model):
    """Hosts or blocks at the same distance from each other, and the switches that the block stands for."""

    name: Line
    tier: int
    switches: tuple[Line, ...]
    hosts: tuple[Line, ...]
    blocks: tuple[Line, ...]


class Nearness(Document):
    """Which hosts are near each other. ``labels``: node labels of each host for Kubernetes."""

    blocks: tuple[Block, ...]
    labels: dict[str, dict[str, str]]


class Images(Document):
    """Images that run in the cluster. ``lock``: the file of accepted images, None if there is none."""

    site: Line
    lock: str | None
    images: tuple[RunningImage, ...]


class ImageChange(Model):
    """An image as accepted before and after; empty: not accepted."""

    image: Line
    before: Line
    after: Line


class ImagesLocked(Document):
    """What was accepted, and the file that records it."""

    file: str
    changes: tuple[ImageChange, ...]


class ProvisionedHost(Model):
    """One machine: the outcome, the reason, and the remedy.

    ``verified_medium``: its BMC verified the server's certificate. ``foreign_dhcp``: DHCP servers that answered
    it and that the site does not name.
    """

    host: Line
    state: Line
    seconds: float
    cause: Line = ""
    fix: Line = ""
    verified_medium: bool = True
    foreign_dhcp: tuple[Line, ...] = ()


class Provisioning(Document):
    """Machines that were installed, in the site's order."""

    hosts: tuple[ProvisionedHost, ...]


class Backup(Model):
    """A backup of the cluster's state. ``written``: seconds since 1970."""

    name: Line
    bytes: int
    written: int


class Unknown(Model):
    """Why a host's state is unknown, and the remedy; both empty if it is known."""

    error: Line = ""
    fix: Line = ""


class BiosChange(Model):
    """A setting that differs from the profile."""

    name: Line
    found: Value
    wanted: Value


class BiosOfHost(Unknown):
    """BIOS settings of a machine. ``named``: how many settings the profile has for its model; None: unknown."""

    model: Line = ""
    power: Line = ""
    named: int | None = None
    changes: tuple[BiosChange, ...] = ()


class BiosSettings(Document):
    """BIOS settings and the profile's, by host."""

    hosts: dict[str, BiosOfHost]


class BackupsOfHost(Unknown):
    """Backups on a control host; None: unknown."""

    backups: tuple[Backup, ...] | None = None


class Backups(Document):
    """Backups by the name of the control host."""

    site: Line
    hosts: dict[str, BackupsOfHost]


class BackupWritten(Document):
    """The backup that a control host has written."""

    host: Line
    name: Line


class SavedSlurm(Model):
    """What a backup has of Slurm. ``changed``: the last change of a job, seconds since 1970."""

    cluster: Line
    jobs: int
    changed: int
    associations: int
    release: Line


class SavedBackup(Model):
    """A backup on the target, by its manifest. ``problem``: why that cannot be read. ``written``: seconds since 1970."""

    name: Line
    problem: Line = ""
    written: int = 0
    bytes: int = 0
    slurm: SavedSlurm | None = None
    parts: tuple[Line, ...] = ()
    authentic: bool | None = Field(
        default=None, description="Whether this site signed it; null without a key for that"
    )


class SavedBackupsOfHost(Unknown):
    """Backups of one host; None: unknown."""

    backups: tuple[SavedBackup, ...] | None = None


class SavedBackups(Document):
    """Backups on the target by the host that was saved; ``_control`` is the control machine."""

    site: Line
    target: Line
    hosts: dict[str, SavedBackupsOfHost]


class CreatedBackups(Document):
    """The backups that were written, by host; ``_control`` is the control machine."""

    hosts: dict[str, SavedBackupsOfHost]


class VerifiedBackup(Document):
    """A backup that the target returned unchanged. ``decrypted``: whether each of its parts was compared, too."""

    name: Line
    decrypted: bool
    authentic: bool | None = Field(
        default=None, description="Whether this site signed it; null without a key for that"
    )
    parts: tuple[Line, ...]


class Kubeconfig(Document):
    """A kubeconfig and its end of validity; ``namespaces``: where a member works, empty for an administrator."""

    file: str
    server: Line
    user: Line
    until: AwareDatetime
    namespaces: tuple[str, ...] = ()


class MigOfHost(Unknown):
    """GPUs as the host's own program reports them (docs/mig.md); None: unknown."""

    gpus: tuple[dict[str, Any], ...] | None = None


class Mig(Document):
    """MIG layout of GPUs by the name of the host."""

    site: Line
    simulated: bool
    hosts: dict[str, MigOfHost]


class Holding(Model):
    """A scheduler's view of a host: its owner, whether the scheduler gives it work, and the work on it."""

    owner: Line | None
    gives_work: bool | None
    state: Line
    work: tuple[Line, ...]


class NodeOwner(Unknown):
    """A GPU host's owner by the site, and by each scheduler that knows it; ``as_declared`` None: unknown."""

    declared: Line
    as_declared: bool | None
    slurm: Holding | None = None
    kubernetes: Holding | None = None


class NodeOwners(Document):
    """Owners of the GPU hosts, by the name of the host."""

    site: Line
    hosts: dict[str, NodeOwner]


class PackageUpdate(Model):
    """An update of one package. ``old``: "" for a package that is new on the host."""

    name: Line
    old: Line
    new: Line
    security: bool = Field(description="From an archive of security updates")


class HostPackageUpdates(Unknown):
    """What an update would change on a host. ``held``: packages that stages manage, which it leaves alone."""

    updates: tuple[PackageUpdate, ...]
    held: tuple[Line, ...] = ()
    can_go_back: bool = Field(description="Whether appliance update back has an update to undo")


class PackageUpdates(Document):
    """Updates of the distribution's packages, by the name of the host."""

    site: Line
    hosts: dict[str, HostPackageUpdates]


class NodeCondition(Model):
    """Conditions that Kubernetes has of a host. ``act``: what was done with its node; ``error``: why reporting failed."""

    fit: Line = Field(description="Status of the condition ApplianceFit: True, False or Unknown")
    causes: tuple[Line, ...]
    act: Line
    error: Line = ""


class NodeConditions(Document):
    """Conditions of the GPU hosts of Kubernetes, by the name of the host."""

    hosts: dict[str, NodeCondition]


class Queues(QueueTree):
    """The site's queues in rendered form: resources for kubectl, labels of nodes, values for Helm."""

    digest: Line
    resources: tuple[dict[str, Any], ...]
    node_labels: dict[str, dict[str, str]]
    charts: tuple[dict[str, Any], ...]


RUNNING = "RUNNING"


class RehearsedJob(Model):
    """A job or pod that ran before the change. ``state``: afterwards, in Slurm's words; also ended, restarted, unknown."""

    host: Line
    scheduler: Literal["slurm", "kubernetes"]
    job: Line
    state: Line

    @property
    def ran_on(self) -> bool:
        """Whether the change left it alone."""
        return self.state == RUNNING


class Rehearsal(Document):
    """A change as rehearsed on a virtual rack. Seconds of wall time.

    ``outcome``: passed, failed (the change fails), or not tried (the deployed state could not be built).
    """

    site: Line
    change: Line = Field(description="The command that was rehearsed")
    outcome: Literal["passed", "failed", "not tried"]
    cause: Line = Field(default="", description="Why it was refused or not tried")
    fix: Line = ""
    deployed: Line = Field(
        description="The run whose site was built first; empty: none is recorded, so the change was made to new hosts"
    )
    network: Line = Field(description="The rack's, which replaces the management network")
    hosts: tuple[Line, ...]
    left_out: tuple[Line, ...] = Field(description="Hosts of the site that had no room")
    not_rehearsed: tuple[Line, ...] = Field(description="Parts of the site that a rack lacks")
    plan: Plan | None = Field(default=None, description="None if the change was refused before")
    restarts: dict[Line, tuple[Line, ...]] = Field(
        default_factory=dict, description="By host, services that were seen to restart"
    )
    unannounced: dict[Line, tuple[Line, ...]] = Field(
        default_factory=dict, description="Of these, what the plan did not name"
    )
    jobs: tuple[RehearsedJob, ...] = ()
    failures: tuple[StageOutcome, ...] = Field(default=(), description="Stages that failed")
    checks: tuple[CheckResult, ...] = Field(
        default=(), description="Checks that fail after the change and passed before it"
    )
    before: tuple[Line, ...] = Field(
        default=(), description="Checks that failed on the rack before the change, too"
    )
    seconds_rack: float = 0.0
    seconds_deployed: float = 0.0
    seconds_change: float = 0.0
    rack: Line = Field(default="", description="Name of the rack if it was kept")
