"""The host itself: operating system, processors, memory, disks, network interfaces and clock."""

from pydantic import Field

from appliance.models.base import Model


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
