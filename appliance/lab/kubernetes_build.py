"""Real Kubernetes for the rack, built once from Debian's source package, as an offline source for the roles."""

import fcntl
import json
import shutil
import time
from pathlib import Path

from appliance.adapters.process import run
from appliance.config import data
from appliance.errors import ApplianceError
from appliance.lab import archives, building, mounts
from appliance.lab.building import Progress
from appliance.lab.device_plugin.bundle import LIBRARIES
from appliance.lab.recipe import digest, role_packages
from appliance.lab.spec import racks

RELEASE = "1.20.2"
CONTAINERD = "1.6"
SOURCES = Path(__file__).with_name("kubernetes_source")
CLUSTER_ROLES = ("containerd", "kubernetes")
PLACE = "opt/appliance/kubernetes"
"""Where hosts of a rack with a cluster find packages, images and manifests."""
MOUNT_NFS = "opt/appliance/lab/mount.nfs"

LAYER_SOURCES = (
    "trees.sh",
    "address-holder",
    "resolver.yaml",
    "kubelet.service",
    "10-kubeadm.conf",
    "mount_nfs.c",
)
OWN_PACKAGES = ("kubeadm", "kubelet", "kubectl")
PROGRAMS = (
    *OWN_PACKAGES,
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kube-proxy",
    "pause",
    "rack-resolver",
)
CONTROL_IMAGES = {
    "kube-apiserver": f"k8s.gcr.io/kube-apiserver:v{RELEASE}",
    "kube-controller-manager": f"k8s.gcr.io/kube-controller-manager:v{RELEASE}",
    "kube-scheduler": f"k8s.gcr.io/kube-scheduler:v{RELEASE}",
    # The name kubeadm asks for; the program is Debian's 3.4.23.
    "etcd": "k8s.gcr.io/etcd:3.4.13-0",
    "rack-resolver": "appliance.local/rack-resolver:1",
    # The name the role asks for; the program is the rack's own.
    "kube-vip": "ghcr.io/kube-vip/kube-vip:v0.8.9",
}
HOST_IMAGES = {
    "kube-proxy": f"k8s.gcr.io/kube-proxy:v{RELEASE}",
    "pause": "k8s.gcr.io/pause:3.2",
    "busybox": "appliance.local/busybox:1",
}
ENTRYPOINTS = {
    "pause": ("/pause",),
    "busybox": ("sh",),
    "kube-vip": ("/usr/local/bin/busybox", "sh", "/address-holder"),
}
NEEDED_GIB = 8
COMPILE_SECONDS = 5400.0
GATHER_SECONDS = 900.0

STALE_SECONDS = 7 * 24 * 3600
OWN_PREFIXES = ("kubernetes-", "cluster-", "making-")
"""What the cache keeps of this module; image layers of other racks are cleared by other rules."""

# A build is killed with the process that started it, and its mounts end with its namespace.
CONFINED = (
    "setpriv",
    "--pdeathsig",
    "KILL",
    "--",
    "unshare",
    "--mount",
    "--pid",
    "--fork",
    "--kill-child",
)


def layer(cache: Path, base: Path, progress: Progress) -> Path:
    """The image layer that carries the offline source, made where the cache lacks it."""
    # A lock of its own: racks without a cluster need not wait for a compiler.
    with (cache / "kubernetes.lock").open("w", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress("waiting for another rack's build of Kubernetes")
            fcntl.flock(lock, fcntl.LOCK_EX)
        for folder in cache.glob("making-*"):
            mounts.remove(folder)
        programs = _programs(cache, base, progress)
        made = _source_layer(cache, base, programs, progress)
        _clear(cache, {programs, made})
        return made


def is_compiled(cache: Path) -> bool:
    """Whether the programs are there already; without them a first rack takes ten minutes more."""
    return _target(cache).exists()


def _source_layer(cache: Path, base: Path, programs: Path, progress: Progress) -> Path:
    wanted = _wanted()
    scripts = "".join((SOURCES / name).read_text(encoding="utf-8") for name in LAYER_SOURCES)
    key = digest(json.dumps([programs.name, wanted, scripts, CONTROL_IMAGES, HOST_IMAGES]))
    target = cache / f"cluster-{key}"
    if target.exists():
        return target
    if mounts.free_gib(cache) < NEEDED_GIB:
        raise ApplianceError(f"{cache} needs {NEEDED_GIB} GiB of free space for Kubernetes")
    fresh = cache / f"making-{target.name}"
    out = fresh / "out"
    out.mkdir(parents=True)
    script = _chroot(fresh, base, {"out": out, "bin-of-kubernetes": programs / "bin"}, "trees.sh")
    with building.told(
        progress,
        "gathering packages and images for Kubernetes",
        lambda: f"{len(list((out / 'packages').glob('*.deb')))} packages",
    ):
        run((*CONFINED, "sh", "-euc", script, "trees.sh", *wanted), timeout=GATHER_SECONDS)
        made = fresh / "layer"
        _offline_source(programs / "bin", out, made / PLACE)
        shutil.copytree(out / "libraries", made / LIBRARIES, symlinks=True)
        shutil.copy(out / "mount.nfs", made / MOUNT_NFS)
    made.rename(target)
    mounts.remove(fresh)
    return target


def _programs(cache: Path, base: Path, progress: Progress) -> Path:
    """The compiled programs, about ten minutes on two processors."""
    target = _target(cache)
    if target.exists():
        return target
    fresh = cache / f"making-{target.name}"
    out = fresh / "out"
    (out / "bin").mkdir(parents=True)
    script = _chroot(fresh, base, {"out": out}, "compile.sh")
    title = f"compiling Kubernetes {RELEASE} from Debian's source, once (about ten minutes)"
    with building.told(progress, title, lambda: _compiled(out / "bin")):
        run((*CONFINED, "sh", "-euc", script, "compile.sh"), timeout=COMPILE_SECONDS)
    out.rename(target)
    mounts.remove(fresh)
    return target


def _target(cache: Path) -> Path:
    files = sorted(path for path in SOURCES.rglob("*") if path.name in {"compile.sh", "main.go"})
    return (
        cache / f"kubernetes-{digest(''.join(file.read_text(encoding='utf-8') for file in files))}"
    )


def _clear(cache: Path, current: set[Path]) -> None:
    """Remove what older versions of the build left, a week after it was made."""
    used = {path for rack in racks() for path in rack.layers.values()}
    for prefix in OWN_PREFIXES:
        for folder in set(cache.glob(f"{prefix}*")) - current:
            stale = time.time() - folder.stat().st_mtime > STALE_SECONDS
            if folder.is_dir() and stale and str(folder) not in used:
                mounts.remove(folder)


def _compiled(folder: Path) -> str:
    done = [name for name in PROGRAMS if (folder / name).exists()]
    return f"{len(done)} of {len(PROGRAMS)} programs compiled"


def _wanted() -> tuple[str, ...]:
    """Packages of Debian the two roles install."""
    found = role_packages(data.root() / "roles")
    names = [name for role in CLUSTER_ROLES for name in found.get(role, ())]
    return ("containerd", *(name for name in names if name not in OWN_PACKAGES))


def _chroot(fresh: Path, base: Path, binds: dict[str, Path], program: str) -> str:
    """A shell script that runs one of our programs in a copy-on-write tree over the base layer."""
    upper, work, root = fresh / "upper", fresh / "work", fresh / "root"
    for folder in (upper, work, root):
        folder.mkdir(parents=True, exist_ok=True)
    shutil.copytree(SOURCES, upper / "source")
    lines = [
        f"mount -t overlay overlay -o lowerdir={base},upperdir={upper},workdir={work} {root}",
        f"cp /etc/resolv.conf {root}/etc/resolv.conf",
        # apt keeps what it downloads, for the offline source.
        f"rm -f {root}/etc/apt/apt.conf.d/docker-clean",
        f"mount -t proc proc {root}/proc",
        f"mount --rbind /dev {root}/dev",
    ]
    for name, folder in binds.items():
        lines += [f"mkdir -p {root}/{name}", f"mount --bind {folder} {root}/{name}"]
    return "\n".join((*lines, f'chroot {root} sh /source/{program} "$@"'))


def _offline_source(programs: Path, out: Path, place: Path) -> None:
    for name in ("packages", "images/hosts", "images/control", "manifests"):
        (place / name).mkdir(parents=True)
    for file in (out / "packages").glob("*.deb"):
        shutil.move(file, place / "packages" / file.name)
    for name in OWN_PACKAGES:
        _own_package(programs, name, out / "own" / name, place / "packages")
    (place / "packages/Packages").write_text(
        archives.package_list(place / "packages"), encoding="utf-8"
    )
    for group, images in (("hosts", HOST_IMAGES), ("control", CONTROL_IMAGES)):
        for name, tag in images.items():
            target = place / "images" / group / f"{name}.tar"
            archives.image(out / "trees" / name, tag, ENTRYPOINTS.get(name, (name,)), target)
    shutil.copy(SOURCES / "resolver.yaml", place / "manifests")


def _own_package(programs: Path, name: str, root: Path, target: Path) -> None:
    """A package with the files upstream's has under the same names."""
    binary = root / "usr/bin" / name
    binary.parent.mkdir(parents=True)
    shutil.copy(programs / name, binary)
    binary.chmod(0o755)
    if name == "kubelet":
        units = root / "usr/lib/systemd/system"
        (units / "kubelet.service.d").mkdir(parents=True)
        shutil.copy(SOURCES / "kubelet.service", units)
        shutil.copy(SOURCES / "10-kubeadm.conf", units / "kubelet.service.d")
    control = {
        "Package": name,
        "Version": f"{RELEASE}-1",
        "Architecture": "amd64",
        "Maintainer": "appliance lab",
        "Description": f"{name}, compiled from Debian's source package for a virtual rack",
    }
    archives.package(root, control, target)
