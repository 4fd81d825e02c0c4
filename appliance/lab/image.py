"""The image the hosts share, in layers that are built once, kept in the cache and never changed after."""

import fcntl
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from appliance.adapters.process import run
from appliance.config import data
from appliance.errors import ApplianceError
from appliance.lab import compiling, helm, kubernetes_build, mounts, nvml
from appliance.lab.recipe import Recipe, role_packages
from appliance.lab.spec import CHARTS_LAYER, CLUSTER_LAYER, cache_root, racks
from appliance.provision import building
from appliance.provision.building import Progress
from appliance.provision.sources import (
    CODENAME,
    CONFINED,
    RELEASES,
    Sources,
    digest,
    finish,
    machine_sources,
)

# Lists older than this are fetched again, so that a host's own apt-get update has little to do.
FRESH_SECONDS = 3 * 24 * 3600
STALE_SECONDS = 7 * 24 * 3600
BUILD_SECONDS = 1800.0
NEEDED_GIB = 5
IMAGE = "image"
OTHERS = tuple(f"plain-{release}" for release in RELEASES)
IMAGES = (IMAGE, *OTHERS)
"""Images that can be built concurrently: that of a rack's own hosts, and the roots of plain ones."""


def layers(progress: Progress, cluster: bool = False) -> dict[str, str]:
    """The image's layers by name, built if they are missing; each is a folder. ``cluster``: with Kubernetes."""
    if not cluster:
        return _layers(progress)
    cache = cache_root() / "lab"
    with kubernetes_build.one_build(cache, progress):
        # Images mostly wait for downloads and disks, and the compiler takes the processors meanwhile.
        with compiling.compiled_meanwhile(cache, progress):
            found = _layers(progress)
            kubernetes_build.prepare(cache, Path(found["base"]), progress)
        made = kubernetes_build.layer(cache, Path(found["base"]), progress)
        return found | {CLUSTER_LAYER: str(made), CHARTS_LAYER: str(helm.layer(cache, progress))}


@contextmanager
def one_build(progress: Progress, what: str = IMAGE) -> Iterator[None]:
    """Lock the builds of one image; the rest of an interrupted build is removed first.

    ``what``: one of IMAGES. Builds of other images do not wait for it.
    """
    cache = cache_root() / "lab"
    cache.mkdir(parents=True, exist_ok=True)
    with _locked(_lock_of(cache, what), progress):
        _clear_builds(cache, what)
        yield


def _layers(progress: Progress) -> dict[str, str]:
    cache = cache_root() / "lab"
    with one_build(progress):
        recipe = Recipe(sources(progress))
        base = _base(cache, recipe, progress)
        packages = _packages(cache, base, recipe.sources, progress)
        built = {"base": str(base), "packages": str(packages)}
        _clear_layers(cache, {*built.values(), str(nvml.build(cache))})
        return built


def sweep() -> None:
    """Remove interrupted builds; running ones continue."""
    cache = cache_root() / "lab"
    if cache.exists():
        for what in IMAGES:
            with (
                suppress(BlockingIOError),
                _lock_of(cache, what).open("w", encoding="utf-8") as lock,
            ):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _clear_builds(cache, what)


def purge() -> None:
    """Remove every layer. Raises ApplianceError while a rack uses them."""
    standing = ", ".join(rack.name for rack in racks())
    if standing:
        raise ApplianceError(f"the image is in use by {standing}", "appliance lab down first")
    mounts.remove(cache_root() / "lab")


def _base(cache: Path, recipe: Recipe, progress: Progress) -> Path:
    target = cache / f"base-{recipe.digest}"
    if target.exists():
        return target
    if mounts.free_gib(cache) < NEEDED_GIB:
        raise ApplianceError(f"{cache} needs {NEEDED_GIB} GiB of free space for the image")
    fresh = cache / f"building-{target.name}"
    title = "building the image, once: Debian 12 with Python and a CPU PyTorch (about two minutes)"
    with building.reported_progress(progress, title, lambda: building.system(fresh)):
        run(
            (*CONFINED, *_bootstrap(recipe, fresh)),
            input="\n".join(recipe.sources.lines) + "\n",
            timeout=BUILD_SECONDS,
            hint="check that Debian's archive is reachable: apt-get update",
        )
        finish(fresh, recipe.sources)
    fresh.rename(target)
    return target


def _bootstrap(recipe: Recipe, root: Path) -> tuple[str, ...]:
    return (
        "mmdebstrap",
        "--mode=root",
        "--variant=minbase",
        "--skip=cleanup/apt",
        "--dpkgopt=force-unsafe-io",
        '--aptopt=APT::Install-Recommends "false"',
        '--aptopt=Acquire::Languages "none"',
        *(f"--aptopt={line}" for line in recipe.sources.apt_conf.splitlines()),
        f"--include={','.join(recipe.packages)}",
        "bookworm",
        str(root),
        "-",
    )


def _packages(cache: Path, base: Path, sources: Sources, progress: Progress) -> Path:
    """The layer of downloaded packages and fresh package lists."""
    wanted = {
        role: names
        for role, names in role_packages(data.root() / "roles").items()
        if role not in kubernetes_build.CLUSTER_ROLES
    }
    key = digest(json.dumps([base.name, wanted], sort_keys=True))
    current = sorted(cache.glob(f"packages-{key}-*"))
    if current and time.time() - int(current[-1].name.rpartition("-")[2]) < FRESH_SECONDS:
        return current[-1]
    total = sum(len(names) for names in wanted.values())
    fresh = cache / f"building-packages-{key}"
    upper, work, root = fresh / "upper", fresh / "work", fresh / "root"
    for folder in (upper, work, root):
        folder.mkdir(parents=True)
    older = sorted(cache.glob("packages-*"), key=lambda path: path.stat().st_mtime)
    lower = ":".join(str(path) for path in (*older[-1:], base))
    script = _download_script(root, f"lowerdir={lower},upperdir={upper},workdir={work}", wanted)
    title = f"downloading {total} packages that the roles install, and their dependencies"
    with building.reported_progress(progress, title, lambda: building.downloads(upper)):
        run((*CONFINED, "sh", "-euc", script), timeout=BUILD_SECONDS)
        _flatten(older[-1:], upper)
    target = cache / f"packages-{key}-{int(time.time())}"
    upper.rename(target)
    mounts.remove(fresh)
    return target


def _download_script(root: Path, overlay: str, wanted: dict[str, tuple[str, ...]]) -> str:
    """Download each role's packages; a name Debian lacks is left to the role to complain about."""
    fetch = "apt-get -qq --yes --download-only --no-install-recommends install"
    lines = [
        f"mount -t overlay overlay -o {overlay} {root}",
        f"trap 'umount {root}' EXIT",
        f"cp /etc/resolv.conf {root}/etc/resolv.conf",
        f"chroot {root} apt-get -qq update",
        f"rm -f {root}/etc/apt/apt.conf.d/docker-clean",
    ]
    for names in wanted.values():
        one_by_one = "; ".join(f"chroot {root} {fetch} {name} || true" for name in names)
        lines.append(f"chroot {root} {fetch} {' '.join(names)} || {{ {one_by_one}; }}")
    return "\n".join((*lines, f"rm -f {root}/etc/resolv.conf"))


def _flatten(older: list[Path], upper: Path) -> None:
    """Copy files that an older layer has already downloaded, so that no layer depends on another.

    A deleted list is marked in ``upper`` by the overlay, and stays deleted.
    """
    for layer in older:
        for folder, pattern in (("var/cache/apt/archives", "*.deb"), ("var/lib/apt/lists", "*_*")):
            (upper / folder).mkdir(parents=True, exist_ok=True)
            for file in (layer / folder).glob(pattern):
                with suppress(FileExistsError):
                    (upper / folder / file.name).hardlink_to(file)


def sources(progress: Progress, release: str = CODENAME) -> Sources:
    """This machine's package sources for a release; apt lets one at a time fetch their lists."""
    with _locked(cache_root() / "lab/lists.lock", progress):
        return machine_sources(progress, release)


def _lock_of(cache: Path, what: str) -> Path:
    return cache / ("lock" if what == IMAGE else f"{what}.lock")


def _clear_builds(cache: Path, what: str) -> None:
    """Remove builds of one image that were interrupted."""
    for folder in cache.glob("building-*"):
        if folder.name.startswith(nvml.BUILDING):
            continue
        if what == next((n for n in OTHERS if folder.name.startswith(f"building-{n}-")), IMAGE):
            mounts.remove(folder)


def _clear_layers(cache: Path, current: set[str]) -> None:
    """Remove layers that are neither current nor under a rack, a week after they were made."""
    used = current | {path for rack in racks() for path in rack.layers.values()}
    for folder in cache.iterdir():
        age = time.time() - folder.stat().st_mtime
        if folder.name.startswith(kubernetes_build.OWN_PREFIXES):
            continue
        if folder.is_dir() and str(folder) not in used and age > STALE_SECONDS:
            mounts.remove(folder)


@contextmanager
def _locked(file: Path, progress: Progress) -> Iterator[None]:
    """Only one build of an image at a time on a machine."""
    with file.open("w", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress("waiting for another rack's image build")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
