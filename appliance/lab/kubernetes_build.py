"""Real Kubernetes for the rack, compiled once from its publishers' modules, as an offline source for the roles."""

import fcntl
import json
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from appliance.adapters.process import run
from appliance.config import data
from appliance.errors import ApplianceError
from appliance.lab import archives, mounts
from appliance.lab.device_plugin.bundle import LIBRARIES
from appliance.lab.programs import (
    COREDNS,
    ETCD,
    KAI,
    KAI_PREFIX,
    KUBE_ROUTER,
    KUBERNETES,
    QUICKLY,
    built,
    forget,
    source,
)
from appliance.lab.recipe import role_packages
from appliance.lab.spec import racks
from appliance.provision import building
from appliance.provision.building import Progress
from appliance.provision.sources import digest
from appliance.stages.kubernetes.variables.containerd import sandbox_image

RELEASE = KUBERNETES.version
CONTAINERD = "1.6"
MODULES = (KUBERNETES, ETCD, COREDNS, KUBE_ROUTER, KAI)
SOURCES = Path(__file__).with_name("kubernetes_source")
CLUSTER_ROLES = ("containerd", "kubernetes")
PLACE = "opt/appliance/kubernetes"
"""Path of packages, images and manifests on hosts of a rack with a cluster."""
MOUNT_NFS = "opt/appliance/lab/mount.nfs"

LAYER_SOURCES = (
    "gather.sh",
    "trees.sh",
    "address-holder",
    "kubelet.service",
    "10-kubeadm.conf",
    "mount_nfs.c",
    "kube-router.yml",
    "reservation",
)
OWN_PACKAGES = ("kubeadm", "kubelet", "kubectl")
"""One program each, of the release."""
ETCD_PACKAGE, ETCD_TOOLS = "etcd-client", ("etcdctl", "etcdutl")
"""Debian's own tools are of 3.4: they save a newer etcd, but cannot restore it."""
KAI_REGISTRY = "ghcr.io/nvidia/kai-scheduler"
"""The registry in which the images of this release are published (README of the module)."""
KAI_TOOLS = f"{KAI_PREFIX}crd-upgrader"
"""The image of the chart's hooks: kubectl, a shell, and files of the module."""
KAI_RESERVATION = f"{KAI_PREFIX}resourcereservation"
"""The image of pods that reserve a GPU for others with parts of it: a stand-in, because the real program requires NVML in its container."""
KAI_IMAGES = (*(name for name, _ in KAI.programs), KAI_TOOLS, KAI_RESERVATION)
CONTROL_IMAGES = {
    "kube-apiserver": f"registry.k8s.io/kube-apiserver:v{RELEASE}",
    "kube-controller-manager": f"registry.k8s.io/kube-controller-manager:v{RELEASE}",
    "kube-scheduler": f"registry.k8s.io/kube-scheduler:v{RELEASE}",
    # The names that kubeadm requires; the programs are of the releases in go.mod.
    "etcd": "registry.k8s.io/etcd:3.6.6-0",
    "coredns": "registry.k8s.io/coredns/coredns:v1.13.1",
    # The name that the role requires; the program is the rack's own.
    "kube-vip": "ghcr.io/kube-vip/kube-vip:v0.8.9",
}
HOST_IMAGES = {
    "kube-proxy": f"registry.k8s.io/kube-proxy:v{RELEASE}",
    "kube-router": f"docker.io/cloudnativelabs/kube-router:v{KUBE_ROUTER.version}",
    "pause": sandbox_image(int(RELEASE.split(".")[1])),
    "busybox": "appliance.local/busybox:1",
    **{
        name: f"{KAI_REGISTRY}/{name.removeprefix(KAI_PREFIX)}:v{KAI.version}"
        for name in KAI_IMAGES
    },
}
ENTRYPOINTS = {
    "pause": ("/pause",),
    "busybox": ("sh",),
    "kube-vip": ("/usr/local/bin/busybox", "sh", "/address-holder"),
    KAI_TOOLS: ("/bin/bash", "/apply-crds.sh"),
    KAI_RESERVATION: ("/usr/local/bin/busybox", "sh", "/reservation"),
}
SOURCES_OF_MODULES = (
    # The one program of Kubernetes that is C.
    (KUBERNETES, "build/pause/linux/pause.c"),
    (KAI, "deployments/crd-upgrader/apply-crds.sh"),
    (KAI, "deployments/kai-scheduler/crds"),
)
"""Files of a module that images contain unchanged."""
NEEDED_GIB = 8
GATHER_SECONDS = 900.0

STALE_SECONDS = 7 * 24 * 3600
OWN_PREFIXES = ("programs-", "kubernetes-", "cluster-", "charts-", "making-", "go")
"""The part of this module that the cache keeps; image layers of other racks are removed by other rules."""

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


def prepare(cache: Path, base: Path, progress: Progress) -> None:
    """Collect the contents of packages and images other than the programs, if the cache lacks the layer.

    To be called in ``one_build``, before ``layer``: it needs no program.
    """
    target = _target(cache)
    if target.exists():
        return
    if mounts.free_gib(cache) < NEEDED_GIB:
        raise ApplianceError(f"{cache} needs {NEEDED_GIB} GiB of free space for Kubernetes")
    fresh = _making(target)
    out = fresh / "out"
    out.mkdir(parents=True)
    shutil.copytree(SOURCES, fresh / "upper/source")
    with building.reported_progress(
        progress,
        "gathering packages for Kubernetes",
        lambda: f"{len(list((out / 'packages').glob('*.deb')))} packages",
    ):
        script = _chroot(fresh, base, {"out": out}, "gather.sh")
        run((*CONFINED, "sh", "-euc", script, "gather.sh", *_wanted()), timeout=GATHER_SECONDS)


def layer(cache: Path, base: Path, progress: Progress) -> Path:
    """The image layer with the offline source, created if the cache lacks it. To be called in ``one_build``."""
    programs = gathered(cache, progress)
    target = _target(cache)
    if target.exists():
        os.utime(target)
        return target
    fresh = _making(target)
    if not fresh.exists():
        prepare(cache, base, progress)
    out, made = fresh / "out", fresh / "layer"
    with building.reported_progress(
        progress,
        "packing Kubernetes into packages and images",
        lambda: f"{len(list(made.rglob('*.tar')))} images",
    ):
        script = _chroot(fresh, base, {"out": out, "bin-of-kubernetes": programs}, "trees.sh")
        run((*CONFINED, "sh", "-euc", script), timeout=GATHER_SECONDS)
        _offline_source(programs, out, made / PLACE)
        shutil.copytree(out / "libraries", made / LIBRARIES, symlinks=True)
        shutil.copy(out / "mount.nfs", made / MOUNT_NFS)
    made.rename(target)
    mounts.remove(fresh)
    return target


def gathered(cache: Path, progress: Progress, compiler: str = QUICKLY) -> Path:
    """All compiled programs in one folder, with the files of modules that images contain unchanged."""
    places = [built(cache, replace(m, compiler=compiler), progress) for m in MODULES]
    target = cache / _gathered_name([place.name for place in places])
    if target.exists():
        os.utime(target)
        return target
    fresh = cache / f"making-{target.name}"
    fresh.mkdir()
    for program in (file for place in places for file in place.iterdir()):
        os.link(program, fresh / program.name)
    for module, path in SOURCES_OF_MODULES:
        found = source(cache, module, progress) / path
        (shutil.copytree if found.is_dir() else shutil.copy)(found, fresh / found.name)
    fresh.rename(target)
    return target


@contextmanager
def one_build(cache: Path, progress: Progress) -> Iterator[None]:
    """Hold the compiler for oneself; what an interrupted build left is cleared away first."""
    cache.mkdir(parents=True, exist_ok=True)
    # A separate lock: racks without a cluster need not wait for a compiler.
    with (cache / "kubernetes.lock").open("w", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress("waiting for another rack's build of Kubernetes")
            fcntl.flock(lock, fcntl.LOCK_EX)
        for folder in cache.glob("making-*"):
            mounts.remove(folder)
        yield
        # Ten GB, of use only to a build of other versions.
        forget(cache)
        _clear(cache)


def _gathered_name(modules: Sequence[str]) -> str:
    """Name of the folder of all programs. ``modules``: the names of their folders."""
    wanted = [str(path) for _, path in SOURCES_OF_MODULES]
    return f"kubernetes-{digest(json.dumps([*modules, *wanted]))}"


def _target(cache: Path) -> Path:
    """The layer of all programs, named by its content."""
    programs = _gathered_name([module.folder_name for module in MODULES])
    scripts = "".join((SOURCES / name).read_text(encoding="utf-8") for name in LAYER_SOURCES)
    images = [CONTROL_IMAGES, HOST_IMAGES, ETCD_PACKAGE]
    return cache / f"cluster-{digest(json.dumps([programs, _wanted(), scripts, images]))}"


def _making(target: Path) -> Path:
    return target.with_name(f"making-{target.name}")


def _clear(cache: Path) -> None:
    """Remove what nothing was made of for a week."""
    used = {path for rack in racks() for path in rack.layers.values()}
    for prefix in OWN_PREFIXES:
        for folder in cache.glob(f"{prefix}*"):
            stale = time.time() - folder.stat().st_mtime > STALE_SECONDS
            if folder.is_dir() and stale and str(folder) not in used:
                mounts.remove(folder)


def _wanted() -> tuple[str, ...]:
    """Packages of Debian the two roles install."""
    found = role_packages(data.root() / "roles")
    names = [name for role in CLUSTER_ROLES for name in found.get(role, ())]
    own = (*OWN_PACKAGES, ETCD_PACKAGE)
    return ("containerd", *(name for name in names if name not in own))


def _chroot(fresh: Path, base: Path, binds: dict[str, Path], program: str) -> str:
    """A shell script that runs one of our programs in a copy-on-write tree over the base layer."""
    upper, work, root = fresh / "upper", fresh / "work", fresh / "root"
    for folder in (upper, work, root):
        folder.mkdir(parents=True, exist_ok=True)
    lines = [
        f"mount -t overlay overlay -o lowerdir={base},upperdir={upper},workdir={work} {root}",
        f"cp /etc/resolv.conf {root}/etc/resolv.conf",
        # apt keeps its downloads, for the offline source.
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
    _pack(programs, out, place)
    (place / "packages/Packages").write_text(
        archives.package_list(place / "packages"), encoding="utf-8"
    )
    manifest = (SOURCES / "kube-router.yml").read_text(encoding="utf-8")
    (place / "manifests/kube-router.yml").write_text(
        manifest.replace("@IMAGE@", HOST_IMAGES["kube-router"]), encoding="utf-8"
    )


def _pack(programs: Path, out: Path, place: Path) -> None:
    """Write packages and images, one on each processor."""
    packages: dict[str, tuple[str, tuple[str, ...]]] = {ETCD_PACKAGE: (ETCD.version, ETCD_TOOLS)}
    packages |= {name: (RELEASE, (name,)) for name in OWN_PACKAGES}

    def package(name: str) -> None:
        version, tools = packages[name]
        root = out / "own" / name
        _files(programs, name, tools, root)
        archives.package(root, _control(name, version), place / "packages")

    def image(group: str, name: str, tag: str) -> None:
        target = place / "images" / group / f"{name}.tar"
        archives.image(out / "trees" / name, tag, ENTRYPOINTS.get(name, (name,)), target)

    groups = {"hosts": HOST_IMAGES, "control": CONTROL_IMAGES}
    images = [(group, *named) for group, found in groups.items() for named in found.items()]
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as packers:
        done = [packers.submit(package, name) for name in packages]
        done += [packers.submit(image, *one) for one in images]
        for written in done:
            written.result()


def _files(programs: Path, name: str, tools: tuple[str, ...], root: Path) -> None:
    """The files of its publishers' package, under the same names."""
    folder = root / "usr/bin"
    folder.mkdir(parents=True)
    for tool in tools:
        shutil.copy(programs / tool, folder)
        (folder / tool).chmod(0o755)
    if name == "kubelet":
        (root / "etc/kubernetes/manifests").mkdir(parents=True)
        units = root / "usr/lib/systemd/system"
        (units / "kubelet.service.d").mkdir(parents=True)
        shutil.copy(SOURCES / "kubelet.service", units)
        shutil.copy(SOURCES / "10-kubeadm.conf", units / "kubelet.service.d")


def _control(name: str, version: str) -> dict[str, str]:
    return {
        "Package": name,
        "Version": f"{version}-1",
        "Architecture": "amd64",
        "Maintainer": "appliance lab",
        "Description": f"{name}, compiled from the upstream module for a virtual rack",
    }
