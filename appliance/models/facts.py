"""What the probe found on one host; the same document is judged by plan, verify, health and report."""

from pydantic import Field

from appliance.models.base import Model
from appliance.models.facts_containers import Containers
from appliance.models.facts_kubernetes import Kubernetes
from appliance.models.facts_limits import Limits
from appliance.models.facts_mig import MigDemand
from appliance.models.facts_scheduler import SchedulerFacts

Resource = dict[str, str | int | bool | list[str] | None]
"""Observed state of one managed resource: ``kind``, ``name`` and the fields of its kind."""


class Os(Model):
    """Operating system. ``container`` is systemd's name for it, "" on a machine; uptime in s."""

    id: str
    version_id: str
    codename: str = ""
    like: tuple[str, ...] = ()
    kernel: str
    arch: str
    container: str = ""
    boot_id: str
    uptime_s: float
    hostname: str
    timezone: str = ""
    cgroup: str = Field(description='"v1", "v2" or "hybrid"')
    state: str = Field(default="", description="systemctl is-system-running")
    failed_units: tuple[str, ...] = ()

    @property
    def release(self) -> str:
        """As profiles name it: "debian-12", "ubuntu-24.04", "rhel-9"."""
        if self.id in {"rhel", "rocky", "almalinux", "ol", "centos"}:
            return f"rhel-{self.version_id.split('.')[0]}"
        return f"{self.id}-{self.version_id}"


class KernelModule(Model):
    """A loaded module of the kernel. Only modules from outside its tree tell a version, as a rule."""

    version: str = ""
    srcversion: str = ""


class Cpu(Model):
    """Processors as the kernel counts them."""

    model: str
    sockets: int
    cores: int
    threads: int


class Memory(Model):
    """Bytes; huge pages of 2 MiB by count."""

    total: int
    available: int
    hugepages_2m: int = 0


class NumaNode(Model):
    """``cpus`` in list format, memory in bytes."""

    node: int
    cpus: str
    memory: int


class Disk(Model):
    """A whole block device; size in bytes."""

    name: str
    size: int
    rotational: bool
    model: str = ""
    serial: str = ""
    transport: str = ""


class Filesystem(Model):
    """A mounted file system that holds data; bytes, and free inodes."""

    at: str
    source: str
    type: str
    size: int
    free: int
    inodes_free: int
    read_only: bool = False
    turned: bool = Field(
        default=False, description="The kernel made it read-only; it was mounted to be written"
    )


class Interface(Model):
    """A network interface; addresses with prefix length, speed in Mb/s, None if unknown."""

    name: str
    mac: str = ""
    mtu: int
    state: str
    speed: int | None = None
    addresses: tuple[str, ...] = ()


class Clock(Model):
    """Host time (s since the epoch) and what the time daemon says; offset in s."""

    time: float
    synchronised: bool | None = None
    offset: float | None = None
    source: str = ""
    updated: float | None = Field(default=None, description="When the source last told the time")
    daemon: str = ""


class MigPart(Model):
    """A compute instance: its number, compute slices, the UUID programs name it by, and its device nodes."""

    id: int
    slices: int
    uuid: str = ""
    nodes: tuple[str, ...] = ()


class MigInstance(Model):
    """A GPU instance (MIG): ``size`` memory slices from ``start``; ``profile_id`` as nvidia-smi shows it."""

    profile: str
    profile_id: int
    start: int
    size: int
    id: int
    parts: tuple[MigPart, ...] = ()


class Gpu(Model):
    """One GPU through NVML. Memory in bytes, power in W, temperature in C; None = not supported."""

    index: int
    uuid: str
    name: str
    serial: str = ""
    vbios: str = ""
    bus_id: str
    minor: int | None = Field(default=None, description="Of its device, /dev/nvidia0")
    memory: int
    memory_used: int | None = None
    pcie_generation: int | None = None
    pcie_width: int | None = None
    pcie_max_generation: int | None = None
    pcie_max_width: int | None = None
    pcie_gpu_generation: int | None = Field(
        default=None, description="What the GPU itself can, whatever its slot can"
    )
    pcie_replays: int | None = None
    numa_node: int | None = None
    pci_path: tuple[str, ...] = Field(
        default=(), description="Bridges from the root of the bus to it: how near an adapter is"
    )
    temperature: int | None = None
    temperature_shutdown: int | None = None
    temperature_slowdown: int | None = None
    temperature_maximum: int | None = None
    temperature_margin: int | None = Field(
        default=None, description="Degrees left until the GPU slows down; newer drivers"
    )
    power_limit: float | None = None
    power_default: float | None = None
    power_least: float | None = Field(default=None, description="Least limit that may be set")
    power_most: float | None = None
    power: float | None = Field(default=None, description="Drawn now")
    sm_clock: int | None = Field(default=None, description="MHz")
    sm_clock_most: int | None = None
    memory_clock: int | None = None
    memory_clock_most: int | None = None
    utilization: int | None = Field(default=None, description="%, of the last moment")
    ecc_enabled: bool | None = None
    ecc_corrected: int | None = None
    ecc_corrected_aggregate: int | None = None
    ecc_uncorrected: int | None = None
    ecc_uncorrected_aggregate: int | None = None
    sram_uncorrected: int | None = Field(default=None, description="Over the GPU's life")
    sram_exceeded: bool | None = None
    remap_pending: bool | None = None
    remap_failed: bool | None = None
    remapped_rows: int | None = Field(default=None, description="For uncorrectable errors")
    remapped_corrected: int | None = Field(default=None, description="For correctable ones")
    mig_enabled: bool | None = None
    mig_pending: bool | None = Field(default=None, description="Mode after the GPU's next reset")
    mig: tuple[MigInstance, ...] | None = Field(
        default=None, description="What it is divided into; None: not read"
    )
    nvlinks_active: int | None = None
    nvlink_speed: int | None = Field(default=None, description="MB/s of each active link")
    persistence: bool | None = None
    clock_event_reasons: int | None = None
    processes: int | None = None
    error: str = ""


class Gpus(Model):
    """The driver's view of all GPUs."""

    driver: str
    nvml: str
    cuda: str = ""
    devices: tuple[Gpu, ...] = ()


class Xid(Model):
    """An Xid message of the NVIDIA driver. ``age``: s before the facts were taken, None if unknown."""

    code: int
    bus_id: str = ""
    age: float | None = None
    text: str = ""
    omitted: int = Field(default=0, description="Earlier ones of this code and GPU, left out")


class RoceState(Model):
    """What makes an Ethernet port lossless, as it is set now; None: not shown or not read."""

    interface: str
    mtu: int | None = None
    pfc: tuple[int, ...] | None = Field(default=None, description="Priorities that are paused")
    dscp: dict[str, int] | None = Field(default=None, description="Priority by DSCP")
    tos: int | None = Field(default=None, description="Of the connection manager's connections")
    traffic_class: int | None = Field(default=None, description="Of all others; few drivers")
    ecn: tuple[int, ...] | None = Field(
        default=None, description="Priorities with both halves of it on; few drivers"
    )


class Port(Model):
    """One port of an RDMA device from sysfs; rate in Gb/s, counters as the kernel names them."""

    device: str
    port: int
    state: str
    physical: str
    rate: float
    link_layer: str
    lid: int | None = None
    sm_lid: int | None = None
    guid: str = ""
    firmware: str = ""
    board: str = ""
    numa_node: int | None = None
    pci_path: tuple[str, ...] = Field(default=(), description="Bridges to its adapter, as a GPU's")
    pkeys: tuple[int, ...] | None = Field(
        default=None, description="Partitions, with the membership bit; None: not read"
    )
    roce: RoceState | None = Field(default=None, description="Where the stage sets it up")
    counters: dict[str, int] = Field(default_factory=dict)


class SlurmNode(Model):
    """A node as slurmctld sees it."""

    name: str
    state: str
    reason: str = ""
    gres: str = ""
    cpus: int = 0
    memory: int = 0


class Slurm(Model):
    """Slurm as its own commands answer on this host."""

    version: str = ""
    controller: str = Field(default="", description="scontrol ping: up, down or its message")
    nodes: tuple[SlurmNode, ...] | None = Field(default=None, description="None: not read")
    accounting: bool | None = Field(
        default=None, description="slurmdbd answers and knows the cluster"
    )


class Target(Model):
    """A Prometheus target."""

    job: str
    instance: str
    health: str
    error: str = ""


class Observe(Model):
    """Prometheus as its own API answers on this host; None where it does not answer."""

    targets: tuple[Target, ...] = ()
    rules: int = Field(default=0, description="Alert rules of the appliance that can be evaluated")
    firing: tuple[str, ...] = ()


class SubnetManager(Model):
    """The subnet manager as asked through MADs from this host; ``guid`` of the master."""

    state: str
    guid: str = ""
    priority: int | None = None


class FabricNode(Model):
    """An end of the fabric found by discovery."""

    guid: str
    description: str
    ports: int


class Link(Model):
    """A cable as discovered: node description and port at both ends, width and speed ("4x", "HDR")."""

    node: str
    port: int
    peer: str
    peer_port: int
    width: str = ""
    speed: str = ""


class Topology(Model):
    """What ibnetdiscover sees from this host."""

    hcas: tuple[FabricNode, ...] = ()
    switches: tuple[FabricNode, ...] = ()
    links: tuple[Link, ...] = ()


class Drift(Model):
    """A managed resource that is not as its stage left it."""

    kind: str
    name: str
    expected: str
    found: str


class Receipt(Model):
    """What a finished stage left on the host, and what has changed since."""

    stage: str
    fingerprint: str
    written: str
    run: str
    appliance: str
    resources: int
    drift: tuple[Drift, ...] = ()
    unread: int = Field(
        default=0, description="Resources that could not be compared; such a receipt proves nothing"
    )
    inputs: dict[str, str] = Field(
        default_factory=dict, description="What the stage was applied with: name -> digest"
    )
    versions: dict[str, str] = Field(
        default_factory=dict, description="Package versions the stage left"
    )


class Unit(Model):
    """A systemd unit: load, active, sub and unit-file state."""

    load: str
    active: str
    sub: str = ""
    enabled: str = ""


class HostFacts(Model):
    """One probe's answer. ``simulated`` names areas whose hardware is simulated."""

    version: int
    host: str
    taken: str
    cpu_seconds: float
    user: str
    simulated: tuple[str, ...] = ()
    errors: dict[str, str] = Field(
        default_factory=dict, description="Area -> why it could not be read"
    )
    os: Os
    modules: dict[str, KernelModule] = Field(
        default_factory=dict, description="Loaded ones among those a stage brings or evicts"
    )
    cpu: Cpu
    memory: Memory
    numa: tuple[NumaNode, ...] = ()
    disks: tuple[Disk, ...] = ()
    filesystems: tuple[Filesystem, ...] = ()
    interfaces: tuple[Interface, ...] = ()
    clock: Clock
    sysctl: dict[str, str] = Field(default_factory=dict)
    gpus: Gpus | None = None
    pci_gpus: int | None = Field(default=None, description="NVIDIA GPUs on the PCI bus")
    pci_gpu_ids: tuple[str, ...] = Field(default=(), description="Their addresses, 0000:07:00.0")
    fabric_manager: str | None = Field(
        default=None, description="Its own version; empty: not installed"
    )
    ports: tuple[Port, ...] = ()
    subnet_manager: SubnetManager | None = None
    topology: Topology | None = None
    units: dict[str, Unit] = Field(default_factory=dict)
    packages: dict[str, str] = Field(default_factory=dict)
    nfs_client: str = Field(default="", description='"kernel", "libnfs" or "" (none)')
    slurm: Slurm | None = None
    containers: Containers | None = None
    kubernetes: Kubernetes | None = None
    scheduler: SchedulerFacts | None = None
    observe: Observe | None = None
    limits: Limits | None = None
    mig_demand: MigDemand | None = None
    xids: tuple[str, ...] = ()
    xid_events: tuple[Xid, ...] | None = Field(
        default=None, description="The last Xid messages, oldest first; None: not read"
    )
    switch_events: tuple[Xid, ...] = Field(
        default=(), description="The last SXid messages of NVSwitches, as xid_events"
    )
    kernel_log_span: float | None = Field(
        default=None, description="Age in s of the oldest kernel message; None: since boot"
    )
    receipts: dict[str, Receipt] = Field(default_factory=dict)
    resources: tuple[Resource, ...] = Field(
        default=(), description="State of the resources asked for"
    )
