"""Requirements of a rack on this machine."""

import ctypes
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

from appliance.adapters.process import run
from appliance.errors import ConfigError
from appliance.lab import hall, mounts
from appliance.lab.spec import STATE_ROOT, RackSpec
from appliance.provision import programs
from appliance.text import plural

PROGRAMS = {
    "nft": "nftables",
    "ip": "iproute2",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
    "unshare": "util-linux",
    "gcc": "gcc libc6-dev",
    "apt-get": "apt",
    "dpkg-deb": "dpkg",
    "gpg": "gpg",
    "gpg-agent": "gpg-agent",
    "gpgconf": "gpgconf",
    "mmdebstrap": "mmdebstrap",
    "mke2fs": "e2fsprogs",
}
OF_CONTAINERS = {"systemd-nspawn": "systemd-container", "losetup": "mount"}
OF_MACHINES = {
    "libvirtd": "libvirt-daemon libvirt-daemon-driver-qemu",
    "virsh": "libvirt-clients",
    "qemu-system-x86_64": "qemu-system-x86",
    "qemu-img": "qemu-utils",
    **programs.PACKAGES,
}
BINDING = Path("/usr/lib/python3/dist-packages/libvirt.py")
MACHINE_DISK_GIB = 6
"""Final size of a virtual machine's disk on this machine, including a few packages of the owner's."""

CLONE_NEWNS = 0x00020000


def missing(
    which: Callable[[str], str | None] = shutil.which, *, virtual: bool = False
) -> tuple[str, ...]:
    """Packages to install for the programs that are not here. ``virtual``: for a rack of virtual machines."""
    listed = PROGRAMS | (OF_MACHINES if virtual else OF_CONTAINERS)
    wanted = {package: None for program, package in listed.items() if not which(program)}
    if virtual and not hall.CODE.exists():
        wanted["ovmf"] = None
    if virtual and not BINDING.exists():
        wanted["python3-libvirt"] = None
    return tuple(wanted)


def require(*, virtual: bool = False) -> None:
    """Raise ConfigError with one line on the first thing this machine lacks; makes nothing.

    ``virtual``: for a rack of virtual machines.
    """
    for problem, hint in _problems(virtual):
        raise ConfigError(f"the virtual rack cannot stand here: {problem}", hint)


def require_room(wanted: RackSpec) -> None:
    """Raise ConfigError where this machine is too small for so many virtual machines."""
    memory = wanted.hosts * hall.MEMORY_MIB >> 10
    there = available_mib() >> 10
    if there < memory:
        raise ConfigError(
            f"{plural(wanted.hosts, 'machine')} take {memory} GiB of memory, of which {there} are free here",
            "give a smaller --count, or end what takes it",
        )
    disk = wanted.hosts * MACHINE_DISK_GIB
    if mounts.free_gib(STATE_ROOT) < disk:
        raise ConfigError(f"{STATE_ROOT} needs {disk} GiB of free space for the machines' disks")


def available_mib() -> int:
    """Memory of this machine that programs can still get."""
    for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) >> 10
    return 0


def _problems(virtual: bool) -> Iterator[tuple[str, str]]:
    if sys.platform != "linux":
        yield "it needs Linux", "run it on a Debian 12 machine"
    if os.geteuid() != 0:
        yield "it needs root", "run it with sudo"
    packages = missing(virtual=virtual)
    if packages:
        yield (
            f"{' and '.join(packages)} not installed",
            f"apt-get install {' '.join(packages)}",
        )
    if virtual:
        yield from _of_emulator()
    else:
        yield from _of_kernel()
    if not _may_unshare():
        yield "mount namespaces are not permitted", "allow CAP_SYS_ADMIN, or use a whole machine"


def _of_emulator() -> Iterator[tuple[str, str]]:
    """The controllers run in this Python, with the distribution's binding to libvirt."""
    if run((sys.executable, "-c", hall.BINDING), check=False).returncode:
        yield (
            f"{sys.executable} cannot read {BINDING}, which is for the distribution's own Python",
            "make the environment with that one: rm -r .venv && make setup",
        )
    if find_spec("sushy_tools") is None:
        yield (
            "sushy-tools, which simulates the BMCs, is not installed",
            "make tools",
        )


def _of_kernel() -> Iterator[tuple[str, str]]:
    if "overlay" not in Path("/proc/filesystems").read_text(encoding="utf-8"):
        yield "this kernel has no overlay filesystem", "modprobe overlay"
    if not Path("/dev/loop-control").exists():
        yield "there are no loop devices", "modprobe loop"
    if not Path("/etc/machine-id").exists():
        yield "this machine has no /etc/machine-id", "systemd-machine-id-setup"


def _may_unshare() -> bool:
    """Try it in a child, which ends at once."""
    child = os.fork()
    if child == 0:
        os._exit(ctypes.CDLL(None).unshare(CLONE_NEWNS) and 1)
    return os.waitpid(child, 0)[1] == 0
