"""The host itself: operating system, processors, memory, disks, network interfaces and clock."""

from pydantic import Field

from appliance.models.base import Model
from appliance.models.fact_types import (
    BusId,
    Count,
    DeviceName,
    InterfaceName,
    Line,
    Moment,
    Number,
    Real,
    UnitName,
)


class Os(Model):
    """Operating system. ``container`` is systemd's name for it, "" on a machine; uptime in s."""

    id: Line
    version_id: Line
    codename: Line = ""
    like: tuple[Line, ...] = ()
    kernel: Line
    container: Line = ""
    boot_id: Line
    hostname: Line
    timezone: Line = ""
    cgroup: Line = Field(description='"v1", "v2" or "hybrid"')
    state: Line = Field(default="", description="systemctl is-system-running")
    failed_units: tuple[UnitName, ...] = ()
    boots_into: Line = Field(default="", description="default.target of /etc; empty: the system's")
    lost_at_boot: tuple[Line, ...] = Field(
        default=(), description="Mount points of fstab whose device is not there"
    )

    @property
    def release(self) -> str:
        """In the notation of profiles: "debian-12", "ubuntu-24.04", "rhel-9"."""
        if self.id in {"rhel", "rocky", "almalinux", "ol", "centos"}:
            return f"rhel-{self.version_id.split('.')[0]}"
        return f"{self.id}-{self.version_id}"


class KernelModule(Model):
    """A loaded module of the kernel. Usually, only out-of-tree modules report a version."""

    version: Line = ""


class Cpu(Model):
    """Processors as counted by the kernel."""

    model: Line
    sockets: Count
    cores: Count
    threads: Count


class Memory(Model):
    """Bytes; huge pages of 2 MiB by count."""

    total: Count
    available: Count
    hugepages_2m: Count = 0


class NumaNode(Model):
    """``cpus`` in list format, memory in bytes."""

    node: Count
    cpus: Line
    memory: Count


class Disk(Model):
    """A whole block device; size in bytes."""

    name: DeviceName
    size: Count
    model: Line = ""
    serial: Line = ""
    transport: Line = ""


class MemoryModule(Model):
    """A memory module with errors; its label names its slot."""

    label: Line
    corrected: Count
    uncorrected: Count


class MemoryErrors(Model):
    """Counts of EDAC for all memory controllers, and the modules that have errors."""

    controllers: Count = Field(description="0: no driver counts")
    corrected: Count
    uncorrected: Count
    since_s: Real | None = Field(default=None, description="Age of the counts, if there are any")
    modules: tuple[MemoryModule, ...] = ()


class PcieDevice(Model):
    """A device of the PCI bus with errors: a GPU, an adapter or drive by its name, or a bridge above one."""

    at: BusId
    device: Line
    fatal: Count
    nonfatal: Count
    correctable: Count


class PcieErrors(Model):
    """Counts of the kernel (AER) for GPUs, adapters, NVMe drives and the bridges above them."""

    devices: Count = Field(description="Number of devices with counters")
    uncounted: tuple[BusId, ...] = Field(
        default=(), description="GPUs, adapters and drives without counters"
    )
    errors: tuple[PcieDevice, ...] = ()


class PcieSettings(Model):
    """GPUs or adapters with equal PCIe settings; sizes in bytes, None if not readable."""

    kind: Line = Field(description="GPU or adapter")
    at: tuple[BusId, ...]
    iommu: Line = Field(default="", description="Mode of their IOMMU groups; empty: no IOMMU")
    payload: Count | None = Field(default=None, description="Largest payload in use")
    read_request: Count | None = Field(default=None, description="Largest read request")
    relaxed: bool | None = Field(default=None, description="They may relax the order of writes")


class Tuning(Model):
    """Settings of processors, memory and PCIe."""

    governors: dict[Line, Count] = Field(
        default={}, description="Frequency policies by governor; empty: no frequency driver"
    )
    huge_pages: Line = Field(
        default="", description="Mode of transparent huge pages; empty: the kernel has none"
    )
    idle_latency_us: Count | None = Field(
        default=None,
        description="Longest exit latency of the idle states that processors may enter; None: no idle states",
    )
    command_line: tuple[Line, ...] = Field(
        default=(), description="Kernel parameters on idle states, frequencies, IOMMU and PCI"
    )
    gpu_modules: Line = Field(
        default="", description="NVIDIA's loaded kernel modules: open, proprietary; empty: none"
    )
    devices: tuple[PcieSettings, ...] = ()
    bridges: Count = Field(default=0, description="PCIe bridges above GPUs and adapters")
    bridges_unread: Count = 0
    access_control: dict[BusId, Count] = Field(
        default={}, description="ACS Control of bridges that have ACS enabled"
    )


class Drive(Model):
    """Health of an NVMe drive; ``warning`` as the bits of its health page, ``used`` and spare in percent."""

    name: DeviceName
    dead: bool = Field(default=False, description="The kernel has disabled its controller")
    warning: Count = 0
    spare: Count = 100
    spare_least: Count = 0
    used: Count
    media_errors: Count = 0


class Nvme(Model):
    """NVMe drives on the host's bus; ``notable`` ones need attention."""

    drives: Count
    most_used: Count | None = Field(default=None, description="Percent used of the most worn drive")
    unasked: tuple[DeviceName, ...] = ()
    notable: tuple[Drive, ...] = ()


class Filesystem(Model):
    """A mounted file system that holds data; bytes, and free inodes."""

    at: Line
    source: Line
    type: Line
    size: Count
    free: Count
    inodes_free: Count
    read_only: bool = False
    turned: bool = Field(default=False, description="The kernel remounted it read-only")
    largest: Line = Field(
        default="", description="Largest content of a full one: bytes, owner and path"
    )


class TrafficFilter(Model):
    """A filter of tc(8) that loses or diverts packets."""

    does: Line = Field(description="police, drop or redirect")
    parent: Line
    priority: Count


class Interface(Model):
    """A network interface; addresses with prefix length, speed in Mb/s, None if unknown."""

    name: InterfaceName
    mac: Line = ""
    mtu: Count
    state: Line
    speed: Number | None = None
    addresses: tuple[Line, ...] = ()
    slowed_by: Line = Field(
        default="", description="Queueing discipline that limits, delays or loses packets"
    )
    slowed_to: Count | None = Field(default=None, description="Its rate in bit/s, if it has one")
    filters: tuple[TrafficFilter, ...] = ()


class PeerPort(Model):
    """A port of another host as seen from this one."""

    port: Count
    state: Line = Field(
        description="open, refused (nothing listens), silent (no answer), unreachable, hung (accepts connections but does not answer)"
    )


class Peer(Model):
    """Another host as seen from this one."""

    name: Line
    address: Line
    own: bool = Field(default=False, description="The host itself")
    small: bool | None = Field(
        default=None, description="A small packet is answered; None: not sent"
    )
    large: bool | None = Field(default=None, description="Also one of ``size`` bytes, unfragmented")
    size: Count = 0
    ports: tuple[PeerPort, ...] = ()
    resolved: tuple[Line, ...] | None = Field(
        default=None, description="Addresses of its name; None: no answer in time"
    )
    mac: Line = Field(
        default="", description="MAC address that answers for its address; empty: unknown"
    )
    barrier: Line = Field(
        default="",
        description="Local obstacle to packets for it: the arguments of ip that remove it",
    )


class NameServer(Model):
    """A server of resolv.conf."""

    address: Line
    answers: bool
    route: bool = Field(default=True, description="False: no route of the host leads there")


class FixedEntry(Model):
    """An entry of the kernel's ARP table that someone has written there."""

    address: Line
    mac: Line
    device: Line


class Block(Model):
    """A rule that refuses packets, in a table that no stage loaded."""

    by: Line = Field(description="The arguments of nft delete that remove it")
    says: Line
    ports: tuple[Count, ...] = Field(default=(), description="Empty: any port")


class Neighbours(Model):
    """Reachability of a few other hosts, and packets refused from them."""

    peers: tuple[Peer, ...] = ()
    name_servers: tuple[NameServer, ...] = ()
    blocks: tuple[Block, ...] = ()
    fixed: tuple[FixedEntry, ...] = ()
    gateway: Line = Field(
        default="", description="Of the first default route; read if no name server answers"
    )
    sources: Line | None = Field(
        default=None, description="Where names are looked up, by nsswitch.conf"
    )


class KernelEvent(Model):
    """Messages of one kind in the kernel log, by a row of kernel_log.yml; ``age`` of the last one in s."""

    id: Line
    what: Line = Field(default="", description="The part that it names")
    count: Count
    age: Real
    text: Line


class Spot(Model):
    """A folder or device file that every user needs; bytes, None if another file system's space counts."""

    at: Line
    kind: Line = Field(
        description="folder, room (only its free space counts), device, gpu, other, missing; common, program and empty (of what every user reads and runs, only those that are closed or empty)"
    )
    mode: Count
    owner: Line = ""
    group: Line = ""
    closed_by: Line = Field(default="", description="Folder on the path that users cannot enter")
    size: Count | None = None
    free: Count | None = None
    inodes_free: Count | None = None
    read_only: bool = Field(default=False, description="Its file system is")
    noexec: bool = Field(default=False, description="Its file system runs no programs")
    largest: Line = Field(
        default="", description="Largest content of a full folder: bytes, owner and path"
    )


class Obstacle(Model):
    """One thing that keeps users from work; the check says what each kind means."""

    kind: Line = Field(description="By appliance/probe/collectors/obstacles.py, such as package")
    at: Line = Field(description="Where: a path, a daemon, a package")
    says: Line = ""
    value: Real | None = None
    of: Line = ""
    process: Count | None = None
    waits: Real | None = Field(
        default=None, description="Percent of the last minute in which it waited for a processor"
    )


class Home(Model):
    """An unusable home of a user."""

    user: Line
    at: Line
    trouble: Line


class TakenNumber(Model):
    """A uid or gid of a user or group of the site that another local account has."""

    kind: Line = Field(description="uid or gid")
    number: Count
    by: Line
    wanted: Line = Field(description="The user or group of the site")


class ClosedAccount(Model):
    """A user's account that cannot log in."""

    user: Line
    trouble: Line


class PamRow(Model):
    """A line of a file in /etc/pam.d, without the arguments of its module."""

    at: Line = Field(description="File name and line number, separated by a colon")
    type: Line = Field(description="auth, account or session")
    control: Line = Field(description="As in the file; of @include: include")
    module: Line = Field(description="A module, or the file that is included")
    missing: bool = Field(default=False, description="The module is not installed")


class Lookup(Model):
    """A database of nsswitch.conf(5), and where it is looked up instead of in the host's own files."""

    name: Line
    says: Line


class Proxy(Model):
    """A proxy that a file of the system sets for every login, and that takes no connection."""

    at: Line
    name: Line
    server: Line


class Variable(Model):
    """A variable that a file of the system sets for every login."""

    at: Line
    name: Line


class Crowd(Model):
    """A control group outside jobs with very many processes and threads, or close to its limit."""

    group: Line
    tasks: Count
    most: Count | None = None
    program: Line = Field(default="", description="The most frequent one")
    owner: Line = ""


class Access(Model):
    """What an ordinary user finds on the host."""

    spots: tuple[Spot, ...] = ()
    device_mode: Count | None = Field(
        default=None, description="The driver's mode for its device files; None: not reported"
    )
    nologin: tuple[Line, ...] = Field(default=(), description="Files that prevent logins")
    munge: Line | None = Field(
        default=None,
        description="Error of munge for an unprivileged user; empty: it signs. None: not tried",
    )
    munge_key_is_newer: bool = Field(
        default=False, description="The key was written after munged started"
    )
    munge_uses_key: bool | None = Field(
        default=None, description="munged signs with the key in its file; None: unknown"
    )
    homes: tuple[Home, ...] | None = Field(
        default=None, description="Unusable ones; None: no answer in time"
    )
    closed_accounts: tuple[ClosedAccount, ...] = ()
    loose_keys: tuple[Home, ...] = Field(
        default=(), description="Homes and key files of admins that sshd does not trust"
    )
    pam: tuple[PamRow, ...] = ()
    pam_unread: Line = Field(
        default="", description="Why the lines of /etc/pam.d are not all known; empty: they are"
    )
    lookups: tuple[Lookup, ...] = ()
    proxies: tuple[Proxy, ...] = ()
    job_limits: dict[Line, Count] = Field(
        default={}, description="Hard limits of slurmd that are not unlimited"
    )
    startups: tuple[Count, ...] | None = Field(
        default=None,
        description="Of sshd: logins in progress, and the numbers from which some and all are refused",
    )
    variables: tuple[Variable, ...] = Field(
        default=(), description="Those that select the GPUs or libraries of programs"
    )
    crowds: tuple[Crowd, ...] = ()
    obstacles: tuple[Obstacle, ...] = ()
    taken: tuple[TakenNumber, ...] = ()


class Clock(Model):
    """Host time (s since the epoch) and the answer of the time daemon; offset in s."""

    time: Moment
    synchronised: bool | None = None
    offset: Real | None = None
    source: Line = ""
    updated: Moment | None = Field(default=None, description="Last update from the time source")
    online: Count | None = Field(default=None, description="Number of servers that chronyd queries")
    unanswered: Count | None = Field(
        default=None, description="Last queries in a row, of 8, that no server of chronyd answered"
    )
    sources: tuple[Line, ...] | None = Field(
        default=None, description="The servers of chronyd, if none is selected"
    )
    daemon: Line = ""
