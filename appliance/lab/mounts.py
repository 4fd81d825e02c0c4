"""The mounts of a rack: per host a disk of bounded size, and an overlay of it over the image."""

import os
import shutil
import sys
import time
import uuid
from contextlib import suppress
from pathlib import Path

from appliance.adapters.process import run
from appliance.errors import ApplianceError
from appliance.lab.spec import CHARTS_LAYER, CLUSTER_LAYER, Rack, RackHost

DISK_GIB = 12
RELEASE_SECONDS = 10.0
MACHINE_ID = Path("/etc/machine-id")
NO_MACHINE_ID = ("", "uninitialized")
ENTER = Path(__file__).with_name("enter.py")
DATA_FOLDERS = ("srv", "export")
CLUSTER_FOLDERS = ("var/lib/containerd", "var/lib/kubelet")
"""Folders of a cluster host that are on the disk itself: overlays do not stack, and kubelet measures a real file system."""


def mounted(below: Path) -> tuple[Path, ...]:
    """Mount points at or below ``below``, deepest last."""
    found = []
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
        point = Path(line.split()[4].replace("\\040", " "))
        if point == below or below in point.parents:
            found.append(point)
    return tuple(found)


def attached(below: Path) -> tuple[Path, ...]:
    """Files below ``below`` that are loop devices; the kernel gives one up with the last mount of it, in any namespace."""
    found = []
    for device in Path("/sys/block").glob("loop*/loop/backing_file"):
        with suppress(OSError):
            found.append(Path(device.read_text(encoding="utf-8").rstrip("\n")))
    return tuple(image for image in found if below in image.parents)


def mount_host(rack: Rack, host: RackHost) -> None:
    """Mount the host's disk and root, whichever is not mounted yet."""
    present = mounted(host.folder)
    host.root.mkdir(parents=True, exist_ok=True)
    host.disk.mkdir(exist_ok=True)
    if host.disk not in present:
        run(("mount", "-o", "loop,noatime,nobarrier", _image(host), str(host.disk)))
    cluster = CLUSTER_FOLDERS if rack.spec.kubernetes else ()
    for name in ("upper", "work", *DATA_FOLDERS, *cluster):
        (host.disk / name).mkdir(parents=True, exist_ok=True)
    if host.root not in present:
        own = (str(host.hardware),) if rack.spec.plain else ()
        lower = ":".join((*own, *_layers(rack)))
        options = f"lowerdir={lower},upperdir={host.disk}/upper,workdir={host.disk}/work"
        run(("mount", "-t", "overlay", "-o", options, host.machine, str(host.root)))


def unmount(below: Path) -> None:
    """Unmount everything below a folder, lazily where something still holds it."""
    for point in reversed(mounted(below)):
        if run(("umount", str(point)), check=False).returncode:
            run(("umount", "--lazy", str(point)), check=False)


def remove(folder: Path) -> None:
    """Unmount everything below a folder and delete it. Raises ApplianceError rather than delete a mounted tree."""
    unmount(folder)
    held = mounted(folder)
    if held:
        raise ApplianceError(
            f"{held[-1]} cannot be unmounted", "stop the programs that use it, then try again"
        )
    if folder.exists():
        shutil.rmtree(folder)
    # Processes that created a mount namespace in the meantime had copies of the mounts. Removing their folders removed the copies
    # (rmdir(2)), and the kernel releases the disks asynchronously.
    deadline = time.monotonic() + RELEASE_SECONDS
    while attached(folder) and time.monotonic() < deadline:
        time.sleep(0.02)


def own_view(host: RackHost) -> tuple[str, ...]:
    """The prefix of systemd-nspawn if this machine's tree is not suitable.

    It requires that "/" is a mount point, which is false in a plain chroot, and a machine id. If either
    is missing, the tree is bound to a folder of the host, completed there, and entered.
    """
    if (
        Path("/") in mounted(Path("/"))
        and MACHINE_ID.read_text(encoding="utf-8").strip() not in NO_MACHINE_ID
    ):
        return ()
    view = host.folder / "view"
    unmount(view)
    view.mkdir(exist_ok=True)
    own_id = host.folder / "machine-id"
    own_id.write_text(f"{uuid.uuid4().hex}\n", encoding="utf-8")
    run(("mount", "--bind", "/", str(view)))
    for source in (Path("/proc"), Path("/sys"), Path("/dev"), host.disk, host.root):
        run(("mount", "--rbind", str(source), f"{view}{source}"))
        run(("mount", "--make-rslave", f"{view}{source}"))
    run(("mount", "--bind", str(own_id), f"{view}{MACHINE_ID}"))
    run(("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", f"{view}/run"))
    return (sys.executable, "-ISB", str(ENTER), str(view))


def _image(host: RackHost) -> str:
    image = host.folder / "disk.img"
    if not image.exists():
        fresh = image.with_suffix(".new")
        with fresh.open("wb") as file:
            os.truncate(file.fileno(), DISK_GIB << 30)
        # No data outlives the rack, so there is no journal; no reserved blocks, so that a full disk is really full.
        run(("mke2fs", "-q", "-F", "-t", "ext4", "-O", "^has_journal", "-m", "0", str(fresh)))
        fresh.rename(image)
    return str(image)


def _layers(rack: Rack) -> tuple[str, ...]:
    names = (CHARTS_LAYER, CLUSTER_LAYER, "packages", "base")
    return tuple(rack.layers[name] for name in names if name in rack.layers)


def free_gib(path: Path) -> int:
    """Free space of the filesystem for ``path``."""
    while not path.exists():
        path = path.parent
    with suppress(OSError):
        stat = os.statvfs(path)
        return stat.f_bavail * stat.f_frsize >> 30
    return 0
