"""The record of one run: the source of everything in a report; JSON keeps it unchanged."""

from enum import StrEnum
from math import isfinite
from typing import Literal, Self

from pydantic import AwareDatetime, Field, model_validator

from appliance.models.acceptance import Acceptance
from appliance.models.affinity import rails
from appliance.models.base import Document, Model
from appliance.models.facts import HostFacts
from appliance.models.gpu_counts import gpu_count, gpu_total
from appliance.models.images import RunningImage
from appliance.models.line import Line
from appliance.models.profile import Profile
from appliance.models.result import CheckResult, Measurement, Status, Value, Verdict
from appliance.models.site import Host, Role, Site
from appliance.models.waiver import Waiver
from appliance.text import plural


class StageState(StrEnum):
    """The result of one stage on one host."""

    DONE = "done"
    SKIPPED = "skipped"
    FAILED = "failed"
    BLOCKED = "blocked"
    NOT_RUN = "not run"


class StageOutcome(Model):
    """One stage on one host. Seconds of wall time; ``changes``: tasks that changed something.

    ``away``: it failed because the host became unreachable.
    """

    stage: Line
    host: Line
    state: StageState
    why: Line = ""
    seconds: float = 0.0
    changes: int = 0
    started: AwareDatetime | None = None
    cause: Line = ""
    fix: Line = ""
    away: bool = False


class GpuRecord(Model):
    """A GPU as inventory. Memory in bytes."""

    index: int
    name: Line
    serial: Line = ""
    uuid: Line = ""
    vbios: Line = ""
    driver: Line = ""
    bus_id: Line = ""
    memory: int = 0
    adapters: tuple[Line, ...] = Field(default=(), description="The nearest ones: its rail")


class PortRecord(Model):
    """An RDMA port as inventory. Rate in Gb/s."""

    device: Line
    port: int
    guid: Line = ""
    firmware: Line = ""
    board: Line = ""
    state: Line = ""
    rate: float = 0.0
    link_layer: Line = ""


class Expected(Model):
    """What the profile expects, for the whole site or for one host: counts, and Gb/s per port."""

    gpus: int = 0
    ports: int = 0
    rate_gbps: float = 0.0


class HostRecord(Model):
    """A host as inventory; memory in bytes. ``unreachable``: why there are no facts."""

    name: Line
    roles: tuple[Line, ...] = ()
    address: Line = ""
    os: Line = ""
    kernel: Line = ""
    cpu: Line = ""
    memory: int = 0
    gpus: tuple[GpuRecord, ...] = ()
    ports: tuple[PortRecord, ...] = ()
    unreachable: Line = ""
    profile: Line = Field(default="", description="Its hardware class; default: it has none")
    expected: Expected | None = Field(
        default=None,
        description="What its class expects; default: the whole site has one class",
    )


class Series(Model):
    """One line of a plot; ``kind`` decides how it is drawn."""

    label: Line
    points: tuple[tuple[float, float], ...]
    kind: Literal["measured", "reference", "ideal"] = "measured"


class Plot(Model):
    """A small line plot."""

    title: Line
    x_label: Line
    y_label: Line
    series: tuple[Series, ...]


class Table(Model):
    """A table of a benchmark, with its plot."""

    title: Line
    columns: tuple[Line, ...]
    rows: tuple[tuple[Value, ...], ...]
    note: Line = ""
    plot: Plot | None = None


class HandOver(Model):
    """Of a report that is handed over. ``signer``: fingerprint of the key; "" is unsigned."""

    signer: Line = ""
    archive: Line
    pdf: Line = Field(default="", description="Why there is no PDF; empty if there is one")
    enclosed: int = Field(description="Files of evidence in the archive")
    not_enclosed: tuple[Line, ...] = Field(default=(), description="Evidence that is only listed")


class KeptFile(Model):
    """A file kept next to the report."""

    path: Line
    sha256: Line
    size: int = Field(ge=0)


class RunRecord(Document):
    """One run from start to verdict. ``not_assessed``: sentences on what this run did not judge.

    The report's third headline is the measurement of unit ``tokens/s`` with the highest
    ``detail["gpus"]``, compared with ``detail["reference"]`` (tokens/s) and ``detail["source"]``;
    ``detail["recalled"]`` names the earlier run it is from.
    Version 1 had no acceptance. Numbers are finite: JSON has no others, so a record with NaN or infinity is a ValueError.
    """

    version: Literal[1, 2] = 2
    run: Line
    verb: Line
    site: Line
    profile: Line
    profile_title: Line = ""
    started: AwareDatetime
    finished: AwareDatetime
    user: Line
    appliance: Line = Field(description="Version of the appliance program")
    control_host: Line = Field(description="Name of the machine the run was started on")
    simulated: tuple[Line, ...] = ()
    verdict: Verdict
    acceptance: Acceptance | None = Field(
        default=None,
        description="Verdict on the whole site; None if the verb does not judge it",
    )
    narrowed: Line = Field(
        default="", description="Flags that limited the run to a part of the site"
    )
    left_out: tuple[Line, ...] = Field(
        default=(), description="What a limited run did not judge or measure"
    )
    expected: Expected = Expected()
    hosts: tuple[HostRecord, ...] = ()
    outcomes: tuple[StageOutcome, ...] = ()
    results: tuple[CheckResult, ...] = ()
    measurements: tuple[Measurement, ...] = ()
    versions: dict[Line, dict[Line, Line]] = Field(
        default_factory=dict, description="Host -> component -> version"
    )
    images: tuple[RunningImage, ...] = ()
    tables: tuple[Table, ...] = ()
    not_assessed: tuple[Line, ...] = ()
    waivers: tuple[Waiver, ...] = ()
    evidence: tuple[KeptFile, ...] = ()
    handover: HandOver | None = None

    @model_validator(mode="after")
    def _is_finite(self) -> Self:
        values = [(r.id, v) for r in self.results for v in (r.value, r.limit)]
        values += [(m.name, v) for m in self.measurements for v in (m.value, *m.detail.values())]
        for name, value in values:
            if isinstance(value, float) and not isfinite(value):
                raise ValueError(f"{name}: {value} is not a number that JSON supports")
        return self

    @property
    def seconds(self) -> float:
        """Wall time of the run."""
        return (self.finished - self.started).total_seconds()

    @property
    def gpu_count(self) -> int:
        """GPUs that answered, over all hosts."""
        return sum(len(host.gpus) for host in self.hosts)

    @property
    def ports_at_rate(self) -> int:
        """RDMA ports of GPU hosts that are active at the profile's rate or above, if the profile expects ports."""
        hosts = (host for host in self.hosts if Role.GPU in host.roles)
        return sum(self.is_at_rate(port, host) for host in hosts for port in host.ports)

    @property
    def profiles(self) -> tuple[str, ...]:
        """The hardware classes of its hosts; the site's own if none has another."""
        found = dict.fromkeys(host.profile for host in self.hosts if host.profile)
        return tuple(found) or (self.profile,)

    def is_at_rate(self, port: PortRecord, host: HostRecord) -> bool:
        """Whether ``port`` is active and at least as fast as its host's class expects."""
        wanted = (host.expected or self.expected).rate_gbps
        return "ACTIVE" in port.state.upper() and port.rate >= wanted

    @property
    def headline(self) -> Measurement | None:
        """The training throughput on the first page."""
        rates = [m for m in self.measurements if m.unit == "tokens/s"]
        return max(rates, key=lambda m: float(m.detail.get("gpus") or 0), default=None)

    def count(self, *statuses: Status) -> int:
        """The number of results with one of ``statuses``."""
        return sum(1 for result in self.results if result.status in statuses)


def expected_of(profile: Profile, site: Site) -> Expected:
    """What ``profile``, the classes of its hosts and the site expect of all GPU hosts; of rates the lowest."""
    hosts = site.with_role(Role.GPU)
    fabrics = [site.profile_of(host.name, profile).hardware.fabric for host in hosts]
    rates = [fabric.rate_gbps for fabric in fabrics if fabric.ports]
    return Expected(
        gpus=gpu_total(profile, site, hosts),
        ports=sum(fabric.ports for fabric in fabrics),
        rate_gbps=min(rates, default=profile.hardware.fabric.rate_gbps),
    )


def of_its_class(record: HostRecord, profile: Profile, site: Site) -> HostRecord:
    """``record`` with its class, and its expectations if the site has several; ``profile``: the site's own."""
    host, own = site.host(record.name), site.profile_of(record.name, profile)
    if Role.GPU not in host.roles:
        return record.model_copy(update={"profile": own.name if host.has_class else ""})
    expected = expected_of_host(host, own) if site.has_classes else None
    return record.model_copy(update={"profile": own.name, "expected": expected})


def expected_of_host(host: Host, own: Profile) -> Expected:
    """What the class of one GPU host expects of it."""
    fabric = own.hardware.fabric
    return Expected(gpus=gpu_count(own, host), ports=fabric.ports, rate_gbps=fabric.rate_gbps)


def host_record(host: Host, facts: HostFacts | None, unreachable: str = "") -> HostRecord:
    """The inventory of one host; without facts only the site's values, and the reason."""
    known = HostRecord(
        name=host.name, roles=tuple(r.value for r in host.roles), address=str(host.address)
    )
    if facts is None:
        return known.model_copy(update={"unreachable": unreachable or "no facts"})
    cpu = f"{facts.cpu.model}, {plural(facts.cpu.sockets, 'socket')}, {plural(facts.cpu.cores, 'core')}"
    found = {"os": facts.os.release, "kernel": facts.os.kernel, "memory": facts.memory.total}
    return known.model_copy(
        update={**found, "cpu": cpu, "gpus": _gpus(facts), "ports": _ports(facts)}
    )


def host_versions(facts: HostFacts) -> dict[str, str]:
    """Component -> version: system, driver, CUDA, Slurm and the packages of the stages."""
    versions = {"os": facts.os.release, "kernel": facts.os.kernel}
    if facts.gpus is not None:
        versions |= {"gpu driver": facts.gpus.driver, "cuda": facts.gpus.cuda}
    if facts.slurm is not None:
        versions["slurm"] = facts.slurm.version
    for receipt in facts.receipts.values():
        versions |= {name: facts.packages.get(name, v) for name, v in receipt.versions.items()}
    return {name: version for name, version in versions.items() if version}


def _gpus(facts: HostFacts) -> tuple[GpuRecord, ...]:
    if facts.gpus is None:
        return ()
    fields = {"index", "name", "serial", "uuid", "vbios", "bus_id", "memory"}
    nearest = rails(facts)
    return tuple(
        GpuRecord(
            driver=facts.gpus.driver,
            adapters=nearest[gpu.index],
            **gpu.model_dump(include=fields),
        )
        for gpu in facts.gpus.devices
    )


def _ports(facts: HostFacts) -> tuple[PortRecord, ...]:
    fields = set(PortRecord.model_fields)
    return tuple(PortRecord(**port.model_dump(include=fields)) for port in facts.ports)
