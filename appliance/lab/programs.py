"""Programs of other projects, compiled by name: go.mod and go.sum below modules/ list modules and versions."""

import json
import os
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from appliance.adapters.process import run, spawn
from appliance.errors import ApplianceError
from appliance.lab import go, mounts
from appliance.lab.go import MODULES
from appliance.provision import building
from appliance.provision.building import Progress
from appliance.provision.sources import digest

CACHE = "go"
"""Folders below the rack's cache: downloads, and Go's build cache."""
KEPT = BUILDS, SOURCES = ("build", "modules")
GONE = "gone-"
"""Prefix of folders that are being removed."""
BUILD_SECONDS = 3600.0
"""Time limit of one program."""
FETCH_SECONDS = 1200.0
NEEDED_GIB = 14
ENDS_WITH_US = ("setpriv", "--pdeathsig", "KILL", "--")
"""The compiler does not outlive a program that is killed."""
QUICKLY = "all=-l -dwarf=false"
"""Option of the compiler: no inlining, and no debugging information. It takes three quarters of the time."""
THOROUGHLY = ""
"""Option of the compiler, too: as the publishers compile, for measured programs."""

BUILT_AT = "2026-11-23T00:00:00Z"
"""Build time for programs that embed it: the same sources give the same bytes."""


@dataclass(frozen=True)
class Module:
    """One folder below modules/.

    ``stamps``: variables of the programs that are set to the version of ``main``. ``compiler``: additional options.
    """

    name: str
    main: str
    programs: tuple[tuple[str, str], ...]
    stamps: tuple[str, ...] = ()
    compiler: str = field(default=QUICKLY, repr=False)

    @property
    def version(self) -> str:
        """The main module's version without the v."""
        found = re.search(rf"\b{re.escape(self.main)} v(\S+)", self._text("go.mod"))
        assert found
        return found[1]

    @property
    def folder_name(self) -> str:
        """Name of the folder of a build; it contains the digest of its inputs."""
        texts = (self._text("go.mod"), self._text("go.sum"), repr(self), BUILT_AT, self.compiler)
        return f"programs-{self.name}-{digest(''.join(texts))}"

    def _text(self, file: str) -> str:
        return (MODULES / self.name / file).read_text(encoding="utf-8")

    def flags(self) -> str:
        """Options of the linker."""
        major, minor = self.version.split(".")[:2]
        known = {
            "gitVersion": f"v{self.version}",
            "gitMajor": major,
            "gitMinor": minor,
            "gitTreeState": "clean",
            "buildDate": BUILT_AT,
            "version": f"v{self.version}",
            "Version": f"v{self.version}",
        }
        words = (f"-X {stamp}={known[stamp.rpartition('.')[2]]}" for stamp in self.stamps)
        return " ".join(("-s -w -buildid=", *words))


_STAMPED = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
_KUBERNETES_STAMPS = ("gitVersion", "gitMajor", "gitMinor", "gitTreeState", "buildDate")
KUBERNETES = Module(
    "kubernetes",
    "k8s.io/kubernetes",
    tuple(
        (name, f"k8s.io/kubernetes/cmd/{name}")
        for name in (
            "kubeadm",
            "kubelet",
            "kubectl",
            "kube-apiserver",
            "kube-controller-manager",
            "kube-scheduler",
            "kube-proxy",
        )
    ),
    tuple(f"{place}.{name}" for place in _STAMPED for name in _KUBERNETES_STAMPS),
)
ETCD = Module(
    "etcd",
    "go.etcd.io/etcd/server/v3",
    (
        ("etcd", "go.etcd.io/etcd/server/v3"),
        ("etcdctl", "go.etcd.io/etcd/etcdctl/v3"),
        ("etcdutl", "go.etcd.io/etcd/etcdutl/v3"),
    ),
)
COREDNS = Module(
    "coredns", "github.com/coredns/coredns", (("coredns", "github.com/coredns/coredns"),)
)
HELM = Module(
    "helm",
    "helm.sh/helm/v4",
    (("helm", "helm.sh/helm/v4/cmd/helm"),),
    ("helm.sh/helm/v4/internal/version.version",),
)
HELM_BEFORE = Module(
    "helm3",
    "helm.sh/helm/v3",
    (("helm", "helm.sh/helm/v3/cmd/helm"),),
    ("helm.sh/helm/v3/internal/version.version",),
)
_CONTAINERD = "github.com/containerd/containerd/v2"
CONTAINERD = Module(
    "containerd",
    _CONTAINERD,
    tuple(
        (name, f"{_CONTAINERD}/cmd/{name}")
        for name in ("containerd", "containerd-shim-runc-v2", "ctr")
    ),
    (f"{_CONTAINERD}/version.Version",),
)
_REGISTRY = "github.com/distribution/distribution/v3"
REGISTRY = Module(
    "registry",
    _REGISTRY,
    (("registry", f"{_REGISTRY}/cmd/registry"),),
    (f"{_REGISTRY}/version.version",),
)
_KUBE_ROUTER = "github.com/cloudnativelabs/kube-router/v2"
KUBE_ROUTER = Module(
    "kube-router",
    _KUBE_ROUTER,
    (("kube-router", f"{_KUBE_ROUTER}/cmd/kube-router"),),
    (f"{_KUBE_ROUTER}/pkg/version.Version",),
)
_KWOK = "sigs.k8s.io/kwok"
KWOK = Module(
    "kwok",
    _KWOK,
    (("kwok", f"{_KWOK}/cmd/kwok"),),
    (f"{_KWOK}/pkg/consts.Version",),
)
"""Nodes and pods without machines: of use to a benchmark alone, no rack has it."""
_KAI = "github.com/NVIDIA/KAI-scheduler"
KAI_PREFIX = "kai-"
"""Before the names of its programs, one of which is called scheduler."""
KAI = Module(
    "kai",
    _KAI,
    tuple(
        (f"{KAI_PREFIX}{name}", f"{_KAI}/cmd/{name}")
        for name in (
            "admission",
            "binder",
            "operator",
            "podgroupcontroller",
            "podgrouper",
            "queuecontroller",
            "scheduler",
        )
    ),
)


def is_built(cache: Path, *modules: Module) -> bool:
    """Whether all programs of these are there already."""
    return all((cache / module.folder_name).exists() for module in modules)


def built(cache: Path, module: Module, progress: Progress) -> Path:
    """The folder with the module's programs, compiled if the cache lacks them."""
    target = cache / module.folder_name
    if target.exists():
        os.utime(target)
        return target
    if mounts.free_gib(cache) < NEEDED_GIB:
        raise ApplianceError(f"{cache} needs {NEEDED_GIB} GiB of free space to compile programs")
    fresh = cache / f"making-{target.name}"
    mounts.remove(fresh)
    fresh.mkdir(parents=True)
    client = Client(cache, go.program(cache / CACHE, progress))
    client.fetch(module, progress)
    title = f"compiling {_spoken(module)} of {module.main} v{module.version}, once"
    with building.reported_progress(progress, title, lambda: _how_far(cache, module)):
        client.build(module, fresh)
    for name, package in module.programs:
        (fresh / linked_name(package)).rename(fresh / name)
    fresh.rename(target)
    return target


def fetch(cache: Path, module: Module, progress: Progress) -> None:
    """Download the sources of the module's programs, unless they are present."""
    Client(cache, go.program(cache / CACHE, progress)).fetch(module, progress)


def forget(cache: Path) -> None:
    """Remove caches that builds keep, in parallel with other work: ten GB take minutes on some disks. Programs and a compiler stay."""
    place = cache / CACHE
    for name in KEPT:
        if (place / name).exists():
            (place / name).rename(place / f"{GONE}{name}-{time.time_ns()}")
    # Includes caches that an earlier run had no time to remove.
    if gone := sorted(map(str, place.glob(f"{GONE}*"))):
        spawn(("nice", "rm", "-rf", "--", *gone), log=Path(os.devnull))


def source(cache: Path, module: Module, progress: Progress) -> Path:
    """The downloaded source of the module's main module, as the registry gave it and the checksums prove."""
    client = Client(cache, go.program(cache / CACHE, progress))
    return client.source(module)


class Client:
    """Go with the rack's own module store, restricted to content in the sums."""

    def __init__(self, cache: Path, program: Path) -> None:
        self._program = str(program)
        self._env = {
            "CGO_ENABLED": "0",
            "GOCACHE": str(cache / CACHE / BUILDS),
            # -modcacherw: read-only files can only be removed by root.
            "GOFLAGS": "-mod=readonly -trimpath -buildvcs=false -modcacherw",
            # The compiler is a Go program, too: without garbage collection it takes seven tenths of the time.
            "GOGC": "off",
            "GOMEMLIMIT": "2GiB",
            "GOMODCACHE": str(cache / CACHE / SOURCES),
            "GOTOOLCHAIN": "local",
            "GOWORK": "off",
        }

    def fetch(self, module: Module, progress: Progress) -> None:
        """Download the modules of a module file."""
        with building.reported_progress(
            progress, f"fetching {module.main} v{module.version}", lambda: ""
        ):
            self._run(module, ("mod", "download"), FETCH_SECONDS)

    def build(self, module: Module, folder: Path) -> None:
        """Compile all programs of a module into a folder, static and without what only a debugger reads.

        In one call, so that packages are compiled while a program is linked, which keeps one processor busy.
        """
        how = ("-gcflags", module.compiler, "-ldflags", module.flags())
        packages = [package for _, package in module.programs]
        words = ("build", *how, "-o", f"{folder}/", *packages)
        self._run(module, words, BUILD_SECONDS * len(packages))

    def source(self, module: Module) -> Path:
        """Path of the main module's source."""
        said = self._run(module, ("mod", "download", "-json", module.main), FETCH_SECONDS)
        return Path(json.loads(said)["Dir"])

    def _run(self, module: Module, words: Sequence[str], seconds: float) -> str:
        done = run(
            (*ENDS_WITH_US, self._program, *words),
            timeout=seconds,
            env=self._env,
            cwd=MODULES / module.name,
            hint="check that Go's module registry is reachable: go env GOPROXY",
            name="go",
        )
        return done.stdout


def _how_far(cache: Path, module: Module) -> str:
    return f"{len(at_work(cache, module))} of {len(module.programs)} programs compiled"


def linked_name(package: str) -> str:
    """The name that ``go build`` gives the program of a package: the last element of its path that is no major version."""
    names = [part for part in package.split("/") if not re.fullmatch(r"v\d+", part)]
    return names[-1]


def at_work(cache: Path, module: Module) -> tuple[str, ...]:
    """Which programs of a module are compiled, also before all are."""
    made = cache / f"making-{module.folder_name}"
    is_ready = is_built(cache, module)
    return tuple(
        n for n, package in module.programs if is_ready or (made / linked_name(package)).exists()
    )


def _spoken(module: Module) -> str:
    names = [name for name, _ in module.programs]
    return names[0] if len(names) == 1 else f"{len(names)} programs"
