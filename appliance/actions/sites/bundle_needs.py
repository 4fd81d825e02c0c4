"""What a site downloads, computed from its files: package archives, packages by system, and single programs."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from appliance.airgap.manifest import Lacking
from appliance.config import data
from appliance.config.load import LoadedSite
from appliance.config.role_packages import package_lists, system_variables
from appliance.config.template import filled
from appliance.models.profile import Profile
from appliance.models.site import Role, Site
from appliance.stages.base.bundle import helm_path, place
from appliance.stages.catalog import STAGES
from appliance.stages.gpu.variables import has_switches, kernel_modules
from appliance.stages.kubernetes import charts
from appliance.stages.kubernetes.stage import wanted as has_cluster
from appliance.stages.kubernetes.variables import helm
from appliance.stages.kubernetes.variables.containerd import schema
from appliance.stages.kubernetes.variables.releases import options
from appliance.stages.scheduler.queues import charts as scheduler_charts
from appliance.stages.workloads import releases as workloads

CODENAMES = {
    "debian-12": "bookworm",
    "debian-13": "trixie",
    "ubuntu-22.04": "jammy",
    "ubuntu-24.04": "noble",
}
"""Systems whose packages a bundle can contain."""
COMPONENTS = {
    "debian": ("main", "contrib", "non-free", "non-free-firmware"),
    "ubuntu": ("main", "restricted", "universe", "multiverse"),
}
"""As in the package sources that role base writes: apt asks for each."""
STANDARD = tuple(f"?priority({name})" for name in ("required", "important", "standard"))
"""What the distribution's installer installs: the current versions, so that hosts of an older state can be updated."""
DRIVER_NAMES = "*nvidia* libcuda* libnv* cuda-drivers*"
"""Packages in the driver's own version, as the collection's gpu_packages pins them."""


@dataclass(frozen=True)
class PackageList:
    """Packages that are installed together. ``names``: each may be "a|b", of which the first on offer counts.

    ``release``: all are of this release, the newest. ``pinned``: names of packages that follow that version; "": the names.
    """

    label: str
    names: tuple[str, ...]
    release: str = ""
    pinned: str = ""


@dataclass(frozen=True)
class Publisher:
    """A repository of a third party. ``key``: its name there. ``fingerprint`` "": unknown. ``suite`` "/": a flat repository."""

    place: str
    uri: str
    suite: str
    components: tuple[str, ...]
    key: str
    fingerprint: str


@dataclass(frozen=True)
class Program:
    """A single file with a known digest. ``path``: in the bundle."""

    name: str
    path: str
    uri: str
    sha256: str


def system_lists(loaded: LoadedSite, system: str) -> Iterator[PackageList]:
    """The packages that roles of the site's stages can install on hosts of this system."""
    yield PackageList("standard system", STANDARD)
    distribution, version = _names(system)
    roles = dict.fromkeys(r for s in STAGES if s.wanted(loaded.site) for r in s.ansible_roles)
    found = package_lists(data.root() / "roles", distribution, version)
    for role in roles:
        for key, names in found.get(role, {}).items():
            kind = key.partition(":")[2]
            if names and "_leaving_" not in key and (not kind or kind in loaded.site.base.tools):
                yield from _released(loaded, role, names)
    if "containerd" in roles:
        yield from _containerd(loaded)
    if "gpu" in roles:
        yield from _gpu(loaded, system)


def publishers(loaded: LoadedSite, system: str) -> Iterator[Publisher]:
    """The repositories of third parties that hosts of this system use."""
    site, sources = loaded.site, loaded.site.repositories
    version = system.split("-")[1]
    if site.with_role(Role.GPU) and sources.gpu.source == "nvidia":
        found = _vars("gpu", system)
        known = cast(Mapping[str, Mapping[str, str]], found["__gpu_keys"])
        own = known.get(version.split(".")[0], {})
        uri = sources.gpu.mirror or _filled(found, "__gpu_repository", system)
        yield _publisher("nvidia", system, uri, "/", (), sources.gpu, own)
    if not has_cluster(site) or options(site).offline("packages"):
        return
    if sources.containerd.source == "docker":
        found = _vars("containerd", system)
        own = {"name": "gpg", "fingerprint": str(found["__containerd_docker_fingerprint"])}
        uri = sources.containerd.mirror or str(found["__containerd_docker"])
        suite, parts = CODENAMES[system], ("stable",)
        yield _publisher("containerd", system, uri, suite, parts, sources.containerd, own)
    if sources.kubernetes.source == "kubernetes":
        found = _vars("kubernetes", system)
        fingerprint = str(found["__kubernetes_upstream_fingerprint"])
        own = {"name": str(found["__kubernetes_key_name"]), "fingerprint": fingerprint}
        base = (sources.kubernetes.mirror or str(found["__kubernetes_upstream"])).rstrip("/")
        minor = f"v1.{_kubernetes(loaded).removeprefix('v').split('.')[1]}/deb"
        made = _publisher("kubernetes", system, f"{base}/{minor}", "/", (), sources.kubernetes, own)
        yield Publisher(f"{made.place}/{minor}", made.uri, "/", (), made.key, made.fingerprint)


def programs(site: Site) -> Iterator[Program]:
    """Programs that control hosts download from their publishers."""
    if has_cluster(site) and helm(site):
        found = site.repositories.helm
        yield Program("helm", helm_path(found.url), found.url, found.sha256)


def lacking(loaded: LoadedSite) -> Iterator[Lacking]:
    """What the site needs, and no bundle contains: it comes from ``kubernetes.source`` or a mirror in the hall."""
    site = loaded.site
    if site.repositories.doca is not None:
        yield Lacking(kind="repository", name="doca", why="mirror it in the hall: repositories.doca.mirror")  # fmt: skip
    if not has_cluster(site):
        return
    if not options(site).offline("charts"):
        for name in _charts(loaded):
            yield Lacking(kind="chart", name=name, why="put it into charts/ of kubernetes.source")
    if not options(site).offline("images"):
        known = sorted(loaded.lock.images) if loaded.lock else ["all (there is no images.lock)"]
        for image in known:
            yield Lacking(kind="image", name=image, why="put it into images/ of kubernetes.source, or a registry of kubernetes.registry_mirrors")  # fmt: skip


def _charts(loaded: LoadedSite) -> Iterator[str]:
    site, profile = loaded.site, loaded.profile
    found = [*charts.releases(site, profile), *workloads.releases(site)]
    if site.scheduler is not None and site.scheduler.runai is None:
        found += scheduler_charts.releases(site, profile, site.scheduler)
    for release in found:
        yield f"{release.name} {release.version or release.line}"


def _released(loaded: LoadedSite, role: str, names: tuple[str, ...]) -> Iterator[PackageList]:
    """Packages of Kubernetes have the site's release; the others are the newest."""
    own = tuple(n for n in names if role == "kubernetes" and n in {"kubeadm", "kubelet", "kubectl"})
    if own and options(loaded.site).offline("packages"):
        return
    if own:
        yield PackageList("kubernetes release", own, _kubernetes(loaded))
    if left := tuple(name for name in names if name not in own):
        yield PackageList(role, left)


def _kubernetes(loaded: LoadedSite) -> str:
    chosen = (
        options(loaded.site).version
        or loaded.site.software.get("kubernetes")
        or loaded.profile.software.kubernetes
    )
    return str(chosen or "")


def _containerd(loaded: LoadedSite) -> Iterator[PackageList]:
    site = loaded.site
    chosen = options(site).containerd or site.software.get("containerd")
    release = str(chosen or loaded.profile.software.containerd or "")
    if release and not options(site).offline("packages"):
        name = "containerd.io" if schema(release) > 2 else "containerd"
        yield PackageList("containerd release", (name,), release)


def _gpu(loaded: LoadedSite, system: str) -> Iterator[PackageList]:
    source = loaded.site.repositories.gpu
    found = _vars("gpu", system)
    yield PackageList("kernel headers", (_headers(system),))
    for profile in _classes(loaded):
        values = {
            "gpu_cuda_major": profile.software.cuda.split(".")[0],
            "__gpu_branch": profile.software.driver_branch.split(".")[0],
        }
        modules = kernel_modules(profile, source.kernel_modules)
        names = [*_entries(found, "__gpu_driver_entries", source.source)[modules]]
        fabric = _entries(found, "__gpu_fabric_entries", source.source)
        if has_switches(profile) and fabric:
            names.append(fabric)
        driver = tuple(filled(name, **values) for name in names)
        yield PackageList("driver", driver, profile.software.driver_branch, DRIVER_NAMES)
        others = _entries(found, "__gpu_other_names", source.source)
        yield PackageList("GPU programs", tuple(filled(name, **values) for name in others))


def _classes(loaded: LoadedSite) -> tuple[Profile, ...]:
    return loaded.site.profiles(loaded.profile) if loaded.site.with_role(Role.GPU) else ()


def _entries(found: Mapping[str, object], key: str, source: str) -> Any:
    return cast(Mapping[str, Any], found[key])[source]


def _headers(system: str) -> str:
    return "linux-headers-amd64" if system.startswith("debian") else "linux-headers-generic"


def _publisher(
    name: str,
    system: str,
    uri: str,
    suite: str,
    components: tuple[str, ...],
    given: Any,
    own: Mapping[str, str],
) -> Publisher:
    """``given``: the section of the site, ``own``: name and fingerprint of the publisher's key."""
    key = given.key or own.get("name", "")
    fingerprint = given.fingerprint or ("" if given.key else own.get("fingerprint", ""))
    return Publisher(place(name, system), uri.rstrip("/"), suite, components, key, fingerprint)


def _vars(role: str, system: str) -> dict[str, object]:
    return system_variables(data.root() / "roles" / role / "vars", *_names(system))


def _filled(found: Mapping[str, object], key: str, system: str) -> str:
    version = system.split("-")[1]
    facts = {
        "distribution_version": version,
        "distribution_major_version": version.split(".")[0],
    }
    return filled(str(found[key]), ansible_facts=facts).strip()


def _names(system: str) -> tuple[str, str]:
    """Distribution and version as in names of files of roles."""
    distribution, version = system.split("-")
    return distribution.capitalize(), version
