"""What the probe found on one host; the same document is judged by plan, verify, health and report."""

from pydantic import Field

from appliance.models.base import Model

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
    daemon: str = ""


class Gpu(Model):
    """One GPU through NVML. Memory in bytes, power in W, temperature in C; None = not supported."""

    index: int
    uuid: str
    name: str
    serial: str = ""
    vbios: str = ""
    bus_id: str
    memory: int
    pcie_generation: int | None = None
    pcie_width: int | None = None
    pcie_max_generation: int | None = None
    pcie_max_width: int | None = None
    numa_node: int | None = None
    temperature: int | None = None
    power_limit: float | None = None
    ecc_enabled: bool | None = None
    ecc_uncorrected: int | None = None
    remap_pending: bool | None = None
    remap_failed: bool | None = None
    mig_enabled: bool | None = None
    nvlinks_active: int | None = None
    clock_event_reasons: int | None = None
    processes: int | None = None
    error: str = ""


class Gpus(Model):
    """The driver's view of all GPUs."""

    driver: str
    nvml: str
    cuda: str = ""
    devices: tuple[Gpu, ...] = ()


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
    nodes: tuple[SlurmNode, ...] = ()
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
    rules: int = 0
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
    ports: tuple[Port, ...] = ()
    subnet_manager: SubnetManager | None = None
    topology: Topology | None = None
    units: dict[str, Unit] = Field(default_factory=dict)
    packages: dict[str, str] = Field(default_factory=dict)
    nfs_client: str = Field(default="", description='"kernel", "libnfs" or "" (none)')
    slurm: Slurm | None = None
    observe: Observe | None = None
    xids: tuple[str, ...] = ()
    receipts: dict[str, Receipt] = Field(default_factory=dict)
    resources: tuple[Resource, ...] = Field(
        default=(), description="State of the resources asked for"
    )
