"""A raw disk made from a root folder: GPT, an EFI partition, an ext4 root; without loop devices and mounts."""

import os
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID, uuid5

from appliance.adapters.process import run
from appliance.provision.manifest import SHIM

MIB = 1 << 20
SECTOR = 512
EFI_MIB = 256
ALIGNED_MIB = 1
END_MIB = 1
"""For the backup copy of the partition table."""
SPARE_MIB = 96
"""Free space of the root before it grows, for mke2fs, whose files end in whole blocks."""
SPACE = UUID("6b0b5a0e-6e3f-5c6d-9a51-0f3c0d2c7a11")
"""Identities of an image are derived from its name. Its bytes are not reproducible: mke2fs 1.47.0 copies the files' ctime."""
BUILD_S = 900.0

GRUB_STUB = (
    "search.fs_uuid {root} root\nset prefix=($root)'/boot/grub'\nconfigfile $prefix/grub.cfg\n"
)
GRUB = """# Until update-grub replaces it.
set timeout=2
menuentry 'Debian' {{
	search --no-floppy --fs-uuid --set=root {root}
	linux /boot/vmlinuz-{kernel} root=UUID={root} ro {arguments}
	initrd /boot/initrd.img-{kernel}
}}
"""
ARGUMENTS = "console=tty0 console=ttyS0,115200n8"
"""Both the screen and the serial console, which BMCs show."""
OF_SYSTEM = f"{ARGUMENTS} panic=10"
"""Restarts 10 s after a kernel panic, as in stage base; also before anything is read from the disk."""
FSTAB = """UUID={root} / ext4 errors=remount-ro 0 1
LABEL=EFI /boot/efi vfat umask=0077,nofail 0 2
"""


@dataclass(frozen=True)
class Identity:
    """Names of an image's file systems and partitions until a host gets its own."""

    name: str

    def uuid(self, what: str) -> str:
        """Another one for each part."""
        return str(uuid5(SPACE, f"{self.name} {what}"))

    @property
    def root(self) -> str:
        return self.uuid("root")


def prepare(root: Path, identity: Identity, kernel: str) -> None:
    """What the system reads from its own disk while it boots."""
    values = {"root": identity.root, "kernel": kernel, "arguments": OF_SYSTEM}
    (root / "boot/efi").mkdir(parents=True, exist_ok=True)
    (root / "boot/grub").mkdir(parents=True, exist_ok=True)
    (root / "boot/grub/grub.cfg").write_text(GRUB.format(**values), encoding="utf-8")
    (root / "etc/fstab").write_text(FSTAB.format(**values), encoding="utf-8")
    defaults = root / "etc/default/grub.d/appliance.cfg"
    defaults.parent.mkdir(parents=True, exist_ok=True)
    defaults.write_text(f'GRUB_TIMEOUT=2\nGRUB_CMDLINE_LINUX="{OF_SYSTEM}"\n', encoding="utf-8")


def assemble(root: Path, disk: Path, identity: Identity, stamp: int) -> int:
    """Creates the raw disk; returns its size in bytes. ``stamp``: seconds since 1970, for all times in it."""
    used = int(run(("du", "-s", "--apparent-size", "--block-size=1M", str(root))).stdout.split()[0])
    # ext4 uses a twentieth for inodes, its journal and tables.
    root_mib = used + used // 8 + SPARE_MIB
    total = (ALIGNED_MIB + EFI_MIB + root_mib + END_MIB) * MIB
    with disk.open("wb") as file:
        file.truncate(total)
    run(("sfdisk", "--quiet", str(disk)), input=table(identity, root_mib))
    stamped = {"SOURCE_DATE_EPOCH": str(stamp), "E2FSPROGS_FAKE_TIME": str(stamp)}
    _efi(root, disk, identity.root, stamped)
    offset = (ALIGNED_MIB + EFI_MIB) * MIB
    seed = identity.uuid("hash")
    options = f"offset={offset},hash_seed={seed},lazy_itable_init=1,lazy_journal_init=1"
    making = ("mke2fs", "-q", "-F", "-t", "ext4", "-L", "root", "-U", identity.root, "-E", options)
    run((*making, "-d", str(root), str(disk), f"{root_mib}M"), env=stamped, timeout=BUILD_S)
    return total


def table(identity: Identity, root_mib: int) -> str:
    """The input of sfdisk for the partition table."""
    efi, linux = "C12A7328-F81F-11D2-BA4B-00A0C93EC93B", "4F68BCE3-E8CD-4DB1-96E7-FBCAF984B709"
    per_mib = MIB // SECTOR
    start = (ALIGNED_MIB + EFI_MIB) * per_mib
    return (
        f"label: gpt\nlabel-id: {identity.uuid('disk')}\nfirst-lba: {ALIGNED_MIB * per_mib}\n"
        f"start={ALIGNED_MIB * per_mib}, size={EFI_MIB * per_mib}, type={efi}, uuid={identity.uuid('efi')}, name=efi\n"
        f"start={start}, size={root_mib * per_mib}, type={linux}, uuid={identity.uuid('partition')}, name=root\n"
    )


def _efi(root: Path, disk: Path, uuid: str, stamped: dict[str, str]) -> None:
    """The EFI partition: Debian's signed shim and GRUB, at the path of removable media and at Debian's own."""
    start = ALIGNED_MIB * MIB
    # With the default of eight sectors per cluster the file system would be too small for FAT32.
    making = ("mkfs.vfat", "-F", "32", "-s", "2", "-n", "EFI", "--invariant")
    run((*making, "--offset", str(start // SECTOR), str(disk), str(EFI_MIB * MIB // 1024)))
    at, env = f"{disk}@@{start}", {**stamped, "MTOOLS_SKIP_CHECK": "1"}
    run(("mmd", "-i", at, "::/EFI", "::/EFI/BOOT", "::/EFI/debian"), env=env)
    shim = root / f"usr/lib/shim/{SHIM}.signed"
    grub = root / "usr/lib/grub/x86_64-efi-signed/grubx64.efi.signed"
    for folder, name in (("BOOT", "BOOTX64.EFI"), ("debian", SHIM)):
        run(("mcopy", "-i", at, str(shim), f"::/EFI/{folder}/{name}"), env=env)
        run(("mcopy", "-i", at, str(grub), f"::/EFI/{folder}/grubx64.efi"), env=env)
    stub = disk.with_name("grub.cfg")
    stub.write_text(GRUB_STUB.format(root=uuid), encoding="utf-8")
    os.utime(stub, (int(stamped["SOURCE_DATE_EPOCH"]),) * 2)
    run(("mcopy", "-m", "-i", at, str(stub), "::/EFI/debian/grub.cfg"), env=env)
    stub.unlink()
