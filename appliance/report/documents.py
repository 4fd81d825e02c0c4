"""What verbs print with --json: the form of each document, and which command prints it."""

from typing import Any

from pydantic import AwareDatetime, Field

from appliance.models.acceptance import GateState
from appliance.models.base import Document, Model
from appliance.models.bmc import BmcFacts
from appliance.models.handover import Difference
from appliance.models.images import RunningImage
from appliance.models.line import Line
from appliance.models.queue_plan import QueueTree
from appliance.models.result import CheckResult, Measurement, Value, Verdict
from appliance.models.run import Table
from appliance.models.waiver import Waiver
from appliance.stages.fabric.facts import FabricNode, Link


class Health(Document):
    """The site as it was judged. ``seconds`` of wall time; ``report``: where it lies, None where none was kept."""

    site: Line
    verdict: Verdict
    seconds: float
    simulated: tuple[Line, ...] = Field(description="Areas of hardware that are simulated here")
    results: tuple[CheckResult, ...]
    waivers: tuple[Waiver, ...] = ()
    report: str | None = None
    since: str | None = Field(default=None, description="What it was compared with")
    differences: tuple[Difference, ...] | None = None
    outdated: tuple[Line, ...] = Field(
        default=(),
        description="Stages with complaints that another release of the program deployed",
    )


class TriedEvidence(Model):
    """Evidence of a gate, honest or doctored, and whether the gate did what it is for."""

    gate: Line
    case: Line
    state: GateState
    why: Line
    good: bool


class SelfTest(Document):
    """Every gate with every doctored evidence. ``blocked``: gates that no evidence closes, and why."""

    site: Line
    profile: Line
    good: bool
    tried: tuple[TriedEvidence, ...]
    blocked: dict[str, str]


class GivenWaiver(Waiver):
    """A waiver and whether it counts today."""

    counts: bool


class Waivers(Document):
    """Waivers of a site that nobody withdrew."""

    site: Line
    waivers: tuple[GivenWaiver, ...]


class Machines(Document):
    """What management controllers said. ``seconds`` of wall time; ``report``: where it lies, None where none was kept."""

    site: Line
    verdict: Verdict
    seconds: float
    machines: dict[Line, BmcFacts] = Field(description="By host; of controllers that answered")
    results: tuple[CheckResult, ...]
    report: str | None = None


class Trial(Document):
    """What a trial on a cluster found, one result per promise or add-on."""

    verdict: Verdict
    results: tuple[CheckResult, ...]


class TrainingLogs(Document):
    """What logs of finished trainings show, judged by a profile and entered nowhere."""

    verdict: Verdict
    results: tuple[CheckResult, ...]
    measurements: tuple[Measurement, ...]
    tables: tuple[Table, ...]


class Measurements(Document):
    """What a benchmark measured without a site, judged and entered nowhere."""

    verdict: Verdict
    results: tuple[CheckResult, ...]
    measurements: tuple[Measurement, ...]
    tables: tuple[Table, ...]


class PublishedTables(Document):
    """Tables of others' papers as printed, with what in them does not follow."""

    tables: tuple[Table, ...]


class ForeignAudit(Document):
    """An audit by another program that was entered into the site's record: what it finds wrong or doubtful."""

    site: Line
    run: Line
    table: Table


class FabricPort(Model):
    """A port of a host, Gb/s, and the switch port its cable ends in; None: discovery did not meet it."""

    host: Line
    device: Line
    port: int
    state: Line
    physical: Line
    rate_gbps: float
    switch: Line | None
    switch_port: int | None


class Fabric(Document):
    """The fabric as discovery finds it now. ``seen_from``: the host that looked; ``silent``: hosts without an answer."""

    site: Line
    seen_from: Line
    simulated: bool
    silent: tuple[Line, ...]
    ports: tuple[FabricPort, ...]
    hcas: tuple[FabricNode, ...]
    switches: tuple[FabricNode, ...]
    links: tuple[Link, ...]


class Block(Model):
    """Hosts or blocks that are equally near each other, and the switches the block stands for."""

    name: Line
    tier: int
    switches: tuple[Line, ...]
    hosts: tuple[Line, ...]
    blocks: tuple[Line, ...]


class Nearness(Document):
    """Which hosts are near each other. ``labels``: of each host, as Kubernetes names them."""

    blocks: tuple[Block, ...]
    labels: dict[str, dict[str, str]]


class Images(Document):
    """Images that run in the cluster. ``lock``: the file of what was accepted, None where nothing was."""

    site: Line
    lock: str | None
    images: tuple[RunningImage, ...]


class ImageChange(Model):
    """An image as it was accepted before and after; empty: not at all."""

    image: Line
    before: Line
    after: Line


class ImagesLocked(Document):
    """What was accepted, and where that is written."""

    file: str
    changes: tuple[ImageChange, ...]


class ProvisionedHost(Model):
    """One machine: how it ended, why, and what to do.

    ``verified_medium``: its controller compared the server's certificate. ``foreign_dhcp``: servers that answered it and
    that the site does not name.
    """

    host: Line
    state: Line
    seconds: float
    cause: Line = ""
    fix: Line = ""
    verified_medium: bool = True
    foreign_dhcp: tuple[Line, ...] = ()


class Provisioning(Document):
    """Machines that were given their system, in the site's order."""

    hosts: tuple[ProvisionedHost, ...]


class Backup(Model):
    """A backup of the cluster's state. ``written``: seconds since 1970."""

    name: Line
    bytes: int
    written: int


class Unknown(Model):
    """Why a host is not known, and what to do; both empty where it is."""

    error: Line = ""
    fix: Line = ""


class BiosChange(Model):
    """A setting that is not as the profile wants it."""

    name: Line
    found: Value
    wanted: Value


class BiosOfHost(Unknown):
    """BIOS settings of a machine. ``named``: how many the profile names for its model; None: not known."""

    model: Line = ""
    power: Line = ""
    named: int | None = None
    changes: tuple[BiosChange, ...] = ()


class BiosSettings(Document):
    """BIOS settings beside the profile's, by host."""

    hosts: dict[str, BiosOfHost]


class BackupsOfHost(Unknown):
    """What lies on a control host; None: not known."""

    backups: tuple[Backup, ...] | None = None


class Backups(Document):
    """Backups by the name of the control host."""

    site: Line
    hosts: dict[str, BackupsOfHost]


class BackupWritten(Document):
    """The backup a control host has written."""

    host: Line
    name: Line


class Kubeconfig(Document):
    """A file for kubectl, and until when it is good; ``namespaces``: where a member works, none for an administrator."""

    file: str
    server: Line
    user: Line
    until: AwareDatetime
    namespaces: tuple[str, ...] = ()


class MigOfHost(Unknown):
    """GPUs as the host's own program tells them (docs/mig.md); None: not known."""

    gpus: tuple[dict[str, Any], ...] | None = None


class Mig(Document):
    """How GPUs are divided, by the name of the host."""

    site: Line
    simulated: bool
    hosts: dict[str, MigOfHost]


class Holding(Model):
    """What a scheduler says of a host: whose it is, whether it gives it work, and what works there."""

    owner: Line | None
    gives_work: bool | None
    state: Line
    work: tuple[Line, ...]


class NodeOwner(Unknown):
    """A GPU host's owner by the site, and by each scheduler that knows it; ``as_declared`` None: not known."""

    declared: Line
    as_declared: bool | None
    slurm: Holding | None = None
    kubernetes: Holding | None = None


class NodeOwners(Document):
    """Owners of the GPU hosts, by the name of the host."""

    site: Line
    hosts: dict[str, NodeOwner]


class NodeCondition(Model):
    """What Kubernetes was told of a host. ``act``: what was done with its node; ``error``: why it was not told."""

    fit: Line = Field(description="Status of the condition ApplianceFit: True, False or Unknown")
    causes: tuple[Line, ...]
    act: Line
    error: Line = ""


class NodeConditions(Document):
    """Conditions of the GPU hosts of Kubernetes, by the name of the host."""

    hosts: dict[str, NodeCondition]


class Queues(QueueTree):
    """The site's queues and what they come to: resources for kubectl, labels of nodes, values for Helm."""

    digest: Line
    resources: tuple[dict[str, Any], ...]
    node_labels: dict[str, dict[str, str]]
    charts: tuple[dict[str, Any], ...]
