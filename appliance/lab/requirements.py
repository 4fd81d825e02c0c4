"""What this machine must offer before a rack can stand on it."""

import ctypes
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from appliance.errors import ConfigError

PROGRAMS = {
    "systemd-nspawn": "systemd-container",
    "mmdebstrap": "mmdebstrap",
    "nft": "nftables",
    "ip": "iproute2",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
    "mke2fs": "e2fsprogs",
    "losetup": "mount",
    "unshare": "util-linux",
    "gcc": "gcc libc6-dev",
    "apt-get": "apt",
    "dpkg-deb": "dpkg",
    "gpg": "gpg",
    "gpg-agent": "gpg-agent",
    "gpgconf": "gpgconf",
}

CLONE_NEWNS = 0x00020000


def missing(which: Callable[[str], str | None] = shutil.which) -> tuple[str, ...]:
    """Packages to install for the programs that are not here."""
    wanted = {package: None for program, package in PROGRAMS.items() if not which(program)}
    return tuple(wanted)


def require() -> None:
    """Raise ConfigError with one line on the first thing this machine lacks; makes nothing."""
    for problem, hint in _problems():
        raise ConfigError(f"the virtual rack cannot stand here: {problem}", hint)


def _problems() -> Iterator[tuple[str, str]]:
    if sys.platform != "linux":
        yield "it needs Linux", "run it on a Debian 12 machine"
    if os.geteuid() != 0:
        yield "it needs root", "run it with sudo"
    packages = missing()
    if packages:
        yield (
            f"{' and '.join(packages)} not installed",
            f"apt-get install {' '.join(packages)}",
        )
    if "overlay" not in Path("/proc/filesystems").read_text(encoding="utf-8"):
        yield "this kernel has no overlay filesystem", "modprobe overlay"
    if not Path("/dev/loop-control").exists():
        yield "there are no loop devices", "modprobe loop"
    if not Path("/etc/machine-id").exists():
        yield "this machine has no /etc/machine-id", "systemd-machine-id-setup"
    if not _may_unshare():
        yield "mount namespaces are not permitted", "allow CAP_SYS_ADMIN, or use a whole machine"


def _may_unshare() -> bool:
    """Try it in a child, which ends at once."""
    child = os.fork()
    if child == 0:
        os._exit(ctypes.CDLL(None).unshare(CLONE_NEWNS) and 1)
    return os.waitpid(child, 0)[1] == 0
