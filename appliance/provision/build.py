"""Builds a disk image: Debian's packages, the ramdisk that installs it, and a manifest of both."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.resources import as_file, files
from pathlib import Path

from appliance.adapters import signing
from appliance.adapters.process import run
from appliance.adapters.signing import Key
from appliance.errors import ConfigError
from appliance.provision import building, layout, manifest, programs
from appliance.provision.building import Progress
from appliance.provision.layout import Identity
from appliance.provision.manifest import DISK, KERNEL, LOADER, PACKAGES, RAMDISK, SHIM, Image
from appliance.provision.recipe import DEBCONF, Recipe
from appliance.provision.sources import CONFINED, leave

BUILD_S = 1800.0
NEEDED_GIB = 5
UNITS = ("systemd-networkd.service", "ssh.service")
LEFT_OUT = (
    "path-exclude=/usr/share/doc/*",
    "path-include=/usr/share/doc/*/copyright",
    "path-exclude=/usr/share/locale/*/LC_MESSAGES/*",
)
"""Translations would be written by each installation, but programs use English there (LANG): a twelfth of the image. Manual pages are kept."""
RAMDISK_FILES = ("__init__.py", "dhcp.py", "disks.py", "images.py", "main.py", "ports.py", "server.py", "shared.py", "system.py")  # fmt: skip


def require() -> None:
    """Raises ConfigError with one line on what this machine lacks."""
    if os.geteuid() != 0:
        raise ConfigError("building a disk image needs root", "run it with sudo")
    programs.require()


def build(recipe: Recipe, folder: Path, progress: Progress, key: Key | None = None) -> Image:
    """Builds the image in a new folder, completely or not at all. Raises ConfigError, CommandFailed."""
    require()
    if folder.exists():
        raise ConfigError(f"{folder} exists", "name another folder: --output, or remove it")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{folder.parent} cannot be written to ({error.strerror})") from None
    if shutil.disk_usage(folder.parent).free < NEEDED_GIB << 30:
        raise ConfigError(f"{folder.parent} has less than {NEEDED_GIB} GiB of free space")
    with _workshop(folder) as work:
        root, made = work / "root", work / "image"
        made.mkdir()
        _system(recipe, root, progress)
        kernel = _kernel(root)
        progress(f"building the installer's ramdisk for kernel {kernel}")
        _ramdisk(root, kernel, made / RAMDISK)
        _packages(root, made / PACKAGES)
        shutil.copyfile(root / f"boot/vmlinuz-{kernel}", made / KERNEL)
        shutil.copyfile(root / f"usr/lib/shim/{SHIM}.signed", made / SHIM)
        shutil.copyfile(root / f"usr/lib/grub/x86_64-efi-signed/{LOADER}.signed", made / LOADER)
        identity = Identity(f"debian-{recipe.release}")
        layout.prepare(root, identity, kernel)
        progress("writing the disk")
        newest = _newest(root)
        size = layout.assemble(root, work / "disk.raw", identity, newest)
        run(
            ("zstd", "-q", "-T0", "-9", str(work / "disk.raw"), "-o", str(made / DISK)),
            timeout=BUILD_S,
        )
        image = manifest.write(
            made,
            manifest.Manifest(
                name=identity.name,
                release=recipe.release,
                kernel=kernel,
                built=datetime.fromtimestamp(newest, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
                disk_bytes=size,
                root_uuid=identity.root,
                files=manifest.described(made),
            ),
        )
        if key:
            signing.sign(key, made / manifest.MANIFEST, manifest.NAMESPACE)
        made.rename(folder)
        return Image(folder, image.manifest, image.digest)


@contextmanager
def _workshop(folder: Path) -> Iterator[Path]:
    """A working folder next to the result, which is then only renamed; removed at the end in any case."""
    work = folder.with_name(f".building-{folder.name}")
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(mode=0o700)
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _system(recipe: Recipe, root: Path, progress: Progress) -> None:
    settings = recipe.sources.apt_conf.splitlines()
    with building.reported_progress(
        progress, f"installing Debian {recipe.release}", lambda: building.system(root)
    ):
        run(
            (
                *CONFINED,
                # Mounts end with the namespace, even if the build is killed: the rest is removed as a tree.
                "--mount",
                "mmdebstrap",
                "--mode=root",
                "--variant=minbase",
                "--skip=cleanup/apt",
                "--dpkgopt=force-unsafe-io",
                *(f"--dpkgopt={option}" for option in LEFT_OUT),
                '--aptopt=APT::Install-Recommends "false"',
                *(f"--aptopt={line}" for line in settings),
                f"--include={','.join(recipe.packages)}",
                f"--essential-hook=echo '{DEBCONF.strip()}' | chroot \"$1\" debconf-set-selections",
                recipe.codename,
                str(root),
                "-",
            ),
            input="\n".join(recipe.sources.lines) + "\n",
            timeout=BUILD_S,
            hint=f"check that Debian's archive has {recipe.codename} here: apt-get update",
        )
    leave(root, recipe.sources, recipe.release)
    run(("systemctl", f"--root={root}", "--quiet", "enable", *UNITS))
    # PAM reads it at each login, and logs an error if it is missing.
    (root / "etc/default/locale").write_text("LANG=C.UTF-8\n", encoding="ascii")
    # No account has a password, and host keys are created on each host.
    (root / "etc/machine-id").write_text("uninitialized\n", encoding="ascii")


def _kernel(root: Path) -> str:
    """The newest kernel's release."""
    found = sorted(path.name.removeprefix("vmlinuz-") for path in (root / "boot").glob("vmlinuz-*"))
    if not found:
        raise ConfigError("no kernel was installed", "keep linux-image-amd64 among the packages")
    return found[-1]


def _ramdisk(root: Path, kernel: str, target: Path) -> None:
    """The kernel's modules, Debian's own device discovery, and the installer."""
    settings, code = root / "tmp/initramfs", root / "tmp/ramdisk"
    shutil.copytree(root / "etc/initramfs-tools", settings)
    for name in ("hooks", "scripts"):
        (settings / name).mkdir(exist_ok=True)
    for source, place, mode in (
        ("hook", settings / "hooks/appliance", 0o755),
        ("boot", settings / "scripts/appliance", 0o644),
    ):
        _bring(f"ramdisk/{source}", place, mode)
    for name in RAMDISK_FILES:
        _bring(f"ramdisk/{name}", code / "appliance/provision/ramdisk" / name, 0o644)
    for package in ("appliance", "appliance/provision"):
        (code / package / "__init__.py").touch()
    making = f"mkinitramfs -d /tmp/initramfs -o /tmp/{RAMDISK} {kernel}"
    run((*CONFINED, "--mount", "chroot", str(root), "sh", "-euc", making), timeout=600)
    shutil.move(root / "tmp" / RAMDISK, target)
    for folder in (settings, code):
        shutil.rmtree(folder)


def _bring(name: str, place: Path, mode: int) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    with as_file(files("appliance.provision").joinpath(name)) as source:
        shutil.copyfile(source, place)
    place.chmod(mode)


def _packages(root: Path, target: Path) -> None:
    """Every package with its version, one per line."""
    form = "${Package} ${Version} ${Architecture}\n"
    told = run(("dpkg-query", f"--admindir={root}/var/lib/dpkg", "-W", "-f", form)).stdout
    target.write_text("".join(f"{line}\n" for line in sorted(told.splitlines())), encoding="utf-8")


def _newest(root: Path) -> int:
    """The time of its newest package (the date of its copyright file as unpacked by dpkg), seconds since 1970."""
    docs = (root / "usr/share/doc").glob("*/copyright")
    return int(max((path.stat().st_mtime for path in docs), default=0))
