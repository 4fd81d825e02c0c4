"""The installation medium of a machine: an ISO that firmware boots as a disc, or as a disk once copied to a USB stick."""

import shutil
import tempfile
from pathlib import Path

from appliance.adapters.process import run
from appliance.provision.layout import ARGUMENTS
from appliance.provision.manifest import DISK, KERNEL, LOADER, RAMDISK, SHIM, Image

LABEL = "APPLIANCE"
MIB = 1 << 20
FAT_SPARE_MIB = 4
SETTINGS = "appliance/host.json"
"""Where the installer looks for it, below its root."""
GRUB = """set timeout=0
terminal_output console
linux /{kernel} boot=appliance {arguments}
initrd /{ramdisk} /host.img
boot
"""
MAKING_S = 300.0


def make(image: Image, settings: str, target: Path, *, with_disk: bool = False) -> None:
    """Writes the ISO, mode 0600: its token gives access to one machine's installation. ``with_disk``: it contains the image itself.

    Debian's signed shim and GRUB start it, with Secure Boot on or off.
    """
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".medium-") as name:
        work = Path(name)
        tree, efi, made = work / "tree", work / "efi.img", work / "medium.iso"
        _fill(tree, image, settings)
        if with_disk:
            shutil.copyfile(image.path(DISK), tree / DISK)
        _efi(image, efi)
        made.touch(mode=0o600)
        source, place = ("2", "0xef", str(efi)), "--interval:appended_partition_2:all::"
        # The EFI partition is listed for firmware that boots discs, and in a GPT for firmware that boots USB sticks.
        boot = ("-append_partition", *source, "-appended_part_as_gpt", "-e", place, "-no-emul-boot")
        making = (
            "xorriso",
            "-as",
            "mkisofs",
            "-quiet",
            "-R",
            "-V",
            LABEL,
            "-partition_offset",
            "16",
        )
        run((*making, *boot, "-o", str(made), str(tree)), timeout=MAKING_S)
        made.replace(target)


def _fill(tree: Path, image: Image, settings: str) -> None:
    """Read by GRUB: Debian's GRUB for discs chooses the file system with /.disk/info."""
    for folder in (".disk", "boot/grub"):
        (tree / folder).mkdir(parents=True)
    (tree / ".disk/info").write_text(f"appliance {image.manifest.name}\n", encoding="utf-8")
    config = GRUB.format(kernel=KERNEL, ramdisk=RAMDISK, arguments=ARGUMENTS)
    (tree / "boot/grub/grub.cfg").write_text(config, encoding="utf-8")
    (tree / "host.img").write_bytes(archive(settings))
    for name in (KERNEL, RAMDISK):
        shutil.copyfile(image.path(name), tree / name)


def _efi(image: Image, target: Path) -> None:
    """The FAT file system that firmware boots from: shim and GRUB."""
    files = {"BOOTX64.EFI": image.path(SHIM), "grubx64.efi": image.path(LOADER)}
    size = sum(file.stat().st_size for file in files.values()) // MIB + FAT_SPARE_MIB
    run(("mkfs.vfat", "-n", LABEL, "--invariant", "-C", str(target), str(size * 1024)))
    env = {"MTOOLS_SKIP_CHECK": "1"}
    run(("mmd", "-i", str(target), "::/EFI", "::/EFI/BOOT"), env=env)
    for name, file in files.items():
        run(("mcopy", "-i", str(target), str(file), f"::/EFI/BOOT/{name}"), env=env)


def archive(settings: str) -> bytes:
    """A cpio archive (newc) with the settings: the kernel unpacks it over the ramdisk."""
    folder = SETTINGS.rpartition("/")[0]
    entries = ((folder, 0o040755, b""), (SETTINGS, 0o100600, settings.encode()))
    packed = b"".join(
        _entry(n, name, mode, data) for n, (name, mode, data) in enumerate(entries, 1)
    )
    return packed + _entry(0, "TRAILER!!!", 0, b"")


def _entry(number: int, name: str, mode: int, data: bytes) -> bytes:
    """One entry: a header of 13 hexadecimal fields (kernel's buffer-format.rst), name and data padded to four bytes."""
    title = name.encode() + b"\0"
    links = 2 if mode & 0o040000 else 1
    fields = (number, mode, 0, 0, links, 0, len(data), 0, 0, 0, 0, len(title), 0)
    header = b"070701" + b"".join(b"%08x" % field for field in fields)
    return _padded(header + title) + _padded(data)


def _padded(part: bytes) -> bytes:
    return part + bytes(-len(part) % 4)
