"""Configures the system on the disk for this host: its name, its address, its keys, its login."""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from appliance.provision.ramdisk.shared import Refused, run

TARGET = Path("/target")
HOST_KEY = "etc/ssh/ssh_host_ed25519_key"
KEYS = ("ed25519", "ecdsa")
"""No RSA: finding its primes takes longer than everything else, and current clients do not need it."""


@contextmanager
def mounted(root: str, boot: str, target: Path = TARGET) -> Iterator[Path]:
    """Root and EFI partition, with the kernel file systems that programs in it need."""
    target.mkdir(exist_ok=True)
    run("mount", "-t", "ext4", root, str(target))
    try:
        run("mount", "-t", "vfat", boot, str(target / "boot/efi"))
        run("mount", "--bind", "/dev", str(target / "dev"))
        run("mount", "-t", "proc", "proc", str(target / "proc"))
        yield target
    finally:
        run("umount", "--recursive", str(target))


def new_identity(root: str, old: str) -> str:
    """Gives the root file system a new UUID in place of the image's. Returns it.

    A machine may have a second disk from the same image.
    """
    run("tune2fs", "-U", "random", root)
    new = run("blkid", "-p", "-s", "UUID", "-o", "value", root).strip()
    if new in ("", old):
        raise Refused(f"{root} still has the UUID of the image")
    return new


def configure(target: Path, settings: Mapping[str, Any], identity: Mapping[str, str]) -> str:
    """Writes the host's own configuration. ``identity``: old and new UUID. Returns its public host key."""
    for name in ("boot/grub/grub.cfg", "boot/efi/EFI/debian/grub.cfg", "etc/fstab"):
        file = target / name
        text = file.read_text(encoding="utf-8")
        if identity["old"] not in text:
            raise Refused(
                f"the image's {name} does not contain the UUID of its root", "build it again"
            )
        file.write_text(text.replace(identity["old"], identity["new"]), encoding="utf-8")
    for name, text in texts(settings).items():
        write(target / name, text)
    # Written here so that the first boot is a normal one: systemd would apply presets for seconds, on a root that is still read-only.
    write(target / "etc/machine-id", f"{uuid4().hex}\n", 0o444)
    _let_in(target, settings)
    for kind in KEYS:
        key = f"/etc/ssh/ssh_host_{kind}_key"
        run("chroot", str(target), "ssh-keygen", "-q", "-t", kind, "-N", "", "-f", key)
    return (target / f"{HOST_KEY}.pub").read_text(encoding="ascii").strip()


def texts(settings: Mapping[str, Any]) -> dict[str, str]:
    """Files of the host by path below its root."""
    name, network = settings["host"], settings["network"]
    lines = [f"Address={network['address']}"]
    if network.get("gateway"):
        lines.append(f"Gateway={network['gateway']}")
    return {
        "etc/hostname": f"{name}\n",
        "etc/hosts": f"127.0.0.1\tlocalhost\n127.0.1.1\t{name}\n\n::1\tlocalhost ip6-localhost ip6-loopback\n",
        "etc/systemd/network/10-management.network": (
            # Only physical ports: bonds, bridges and VLANs copy the address of one of theirs.
            f"[Match]\nType=ether\nKind=!*\nMACAddress={network['mac']}\n\n[Link]\nMTUBytes={network['mtu']}\n\n[Network]\n"
            + "".join(f"{line}\n" for line in lines)
        ),
        "etc/resolv.conf": "".join(f"nameserver {server}\n" for server in network["dns"]),
        "etc/appliance/image.json": json.dumps(settings["identity"], indent=1) + "\n",
    }


def _let_in(target: Path, settings: Mapping[str, Any]) -> None:
    """The one account that the control machine logs in with; no account has a password."""
    user = settings["user"]
    if not re.fullmatch(r"[a-z_][a-z0-9_-]{0,31}", user):
        raise Refused(f'"{user}" is not a valid account name')
    home = Path("root")
    if user != "root":
        home = Path("home") / user
        run("chroot", str(target), "useradd", "--create-home", "--shell", "/bin/bash", user)
        write(target / "etc/sudoers.d" / user, f"{user} ALL=(ALL:ALL) NOPASSWD: ALL\n", 0o440)
    keys = target / home / ".ssh/authorized_keys"
    write(keys, settings["authorized_key"] + "\n", 0o600)
    keys.parent.chmod(0o700)
    run("chroot", str(target), "chown", "-R", f"{user}:{user}", f"/{home}/.ssh")


def write(file: Path, text: str, mode: int = 0o644) -> None:
    """Writes a file of this mode."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.unlink(missing_ok=True)
    file.write_text(text, encoding="utf-8")
    file.chmod(mode)
