"""The host itself: operating system, processors, memory, disks, network interfaces and clock."""

from pydantic import Field

from appliance.models.base import Numerous
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


class Os(Numerous):
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

    @property
    def release(self) -> str:
        """As profiles name it: "debian-12", "ubuntu-24.04", "rhel-9"."""
        if self.id in {"rhel", "rocky", "almalinux", "ol", "centos"}:
            return f"rhel-{self.version_id.split('.')[0]}"
        return f"{self.id}-{self.version_id}"


class KernelModule(Numerous):
    """A loaded module of the kernel. Only modules from outside its tree tell a version, as a rule."""

    version: Line = ""


class Cpu(Numerous):
    """Processors as the kernel counts them."""

    model: Line
    sockets: Count
    cores: Count
    threads: Count


class Memory(Numerous):
    """Bytes; huge pages of 2 MiB by count."""

    total: Count
    available: Count
    hugepages_2m: Count = 0


class NumaNode(Numerous):
    """``cpus`` in list format, memory in bytes."""

    node: Count
    cpus: Line
    memory: Count


class Disk(Numerous):
    """A whole block device; size in bytes."""

    name: DeviceName
    size: Count
    model: Line = ""
    serial: Line = ""
    transport: Line = ""


class MemoryModule(Numerous):
    """A memory module with errors; its label names its slot."""

    label: Line
    corrected: Count
    uncorrected: Count


class MemoryErrors(Numerous):
    """What EDAC counts of all memory controllers, and the modules that have errors."""

    controllers: Count = Field(description="0: no driver counts")
    corrected: Count
    uncorrected: Count
    since_s: Real | None = Field(default=None, description="Age of the counts, where there are any")
    modules: tuple[MemoryModule, ...] = ()


class PcieDevice(Numerous):
    """A device of the PCI bus with errors: a GPU, an adapter or drive by its name, or a bridge above one."""

    at: BusId
    device: Line
    fatal: Count
    nonfatal: Count
    correctable: Count


class PcieErrors(Numerous):
    """What the kernel counts (AER) of GPUs, adapters, NVMe drives and the bridges above them."""

    devices: Count = Field(description="How many are counted")
    uncounted: tuple[BusId, ...] = Field(
        default=(), description="GPUs, adapters and drives that are not"
    )
    errors: tuple[PcieDevice, ...] = ()


class Drive(Numerous):
    """What an NVMe drive says of itself; ``warning`` as the bits of its health page, ``used`` and spare in percent."""

    name: DeviceName
    dead: bool = Field(default=False, description="The kernel has given its controller up")
    warning: Count = 0
    spare: Count = 100
    spare_least: Count = 0
    used: Count
    media_errors: Count = 0


class Nvme(Numerous):
    """NVMe drives on the host's bus; named are those that say something worth a look."""

    drives: Count
    most_used: Count | None = Field(default=None, description="Percent of the drive most worn")
    unasked: tuple[DeviceName, ...] = ()
    notable: tuple[Drive, ...] = ()


class Filesystem(Numerous):
    """A mounted file system that holds data; bytes, and free inodes."""

    at: Line
    source: Line
    type: Line
    size: Count
    free: Count
    inodes_free: Count
    read_only: bool = False
    turned: bool = Field(
        default=False, description="The kernel made it read-only; it was mounted to be written"
    )


class Interface(Numerous):
    """A network interface; addresses with prefix length, speed in Mb/s, None if unknown."""

    name: InterfaceName
    mac: Line = ""
    mtu: Count
    state: Line
    speed: Number | None = None
    addresses: tuple[Line, ...] = ()


class Clock(Numerous):
    """Host time (s since the epoch) and what the time daemon says; offset in s."""

    time: Moment
    synchronised: bool | None = None
    offset: Real | None = None
    source: Line = ""
    updated: Moment | None = Field(default=None, description="When the source last told the time")
    daemon: Line = ""
