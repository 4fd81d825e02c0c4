"""Requirements of a cluster upgrade, proved before the first host is drained."""

from collections.abc import Iterator, Mapping

from appliance.errors import ApplianceError, ConfigError
from appliance.models.facts import HostFacts
from appliance.models.site import Host, Role, Site
from appliance.stages.context import Variables
from appliance.stages.kubernetes import ids
from appliance.stages.kubernetes.checks.ground import STATE, file_system_of
from appliance.stages.kubernetes.facts import KubernetesNode
from appliance.stages.kubernetes.variables import takes_pods
from appliance.stages.kubernetes.variables.releases import Release, parse, parsed_release
from appliance.stages.stage import Readiness
from appliance.text import first_few

PACKAGES = ("kubeadm", "kubectl", "kubelet")
UPSTREAM = "https://pkgs.k8s.io/core:/stable:"
"""As in role kubernetes (__kubernetes_upstream)."""
CONTROL_IMAGES = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
HOST_IMAGES = ("kube-proxy",)
ROOM = 3 << 30
"""Own choice, for images and packages of a second release."""
PROOFS = (ids.API, ids.ETCD, ids.BACKUP)
"""Checks that must pass on every control host; otherwise an upgrade could stop the last working one, or could not be reverted."""


def request(facts: HostFacts, variables: Variables) -> dict[str, object]:
    """Return the request to the probe on a host before its upgrade."""
    offline = str(variables["containerd_source"])
    sources = [f"file:{offline}/packages"] if offline else []
    if variables["kubernetes_repository"] == "kubernetes":
        base = (str(variables["kubernetes_repository_mirror"]) or UPSTREAM).rstrip("/")
        kind = "rpm" if "rhel" in (facts.os.id, *facts.os.like) else "deb"
        wanted = parse(str(variables["kubernetes_version"]))
        minors = sorted({wanted.minor, _present(facts).minor or wanted.minor})
        sources = [f"{base}/v1.{minor}/{kind}" for minor in minors]
    offer = {
        "packages": list(PACKAGES),
        "sources": sources,
        "images": variables["containerd_image_folders"],
    }
    return {"areas": ["offer"], "offer": offer}


def _present(facts: HostFacts) -> Release:
    found = parsed_release(facts.kubernetes.version) if facts.kubernetes else None
    return found or Release(0)


def lacks(
    host: Host, facts: HostFacts, offered: HostFacts, variables: Variables
) -> Iterator[ApplianceError]:
    """Return what one host lacks; ``offered``: its answer to the request."""
    wanted = parse(str(variables["kubernetes_version"]))
    offer = offered.offer
    if offer is None:
        why = offered.errors.get("offer", "it was not read")
        yield ConfigError(
            f"{host.name}: not known whether its repositories offer Kubernetes {wanted}: {why}",
            f"apt-get update (or dnf makecache) on {host.name} shows what is wrong",
        )
        return
    chosen = {name: _newest(offer.packages.get(name, ()), wanted) for name in PACKAGES}
    missing = [name for name, release in chosen.items() if release is None]
    if missing:
        there = sorted({v for name in missing for v in offer.packages.get(name, ())})
        yield ConfigError(
            f"{host.name}: no repository offers {' and '.join(missing)} {wanted} (there is {first_few(there) or 'none'})",
            "set kubernetes.version to a release that is offered, or put its packages into the repository, then apt-get update",
        )
        return
    old = _present(facts)
    gone = [n for n in PACKAGES if _newest(offer.packages.get(n, ()), old) is None]
    if old.minor and gone:
        yield ConfigError(
            f"{host.name}: no repository offers {' and '.join(gone)} {old}, to which a failed upgrade goes back",
            f"keep the repository or the packages of {old} next to those of {wanted}",
        )
    if variables["containerd_image_folders"] and (release := chosen["kubeadm"]):
        control = CONTROL_IMAGES if Role.CONTROL in host.roles else ()
        tags = {name.rpartition("/")[2] for name in offer.images}
        absent = [
            f"{n}:v{release}" for n in (*control, *HOST_IMAGES) if f"{n}:v{release}" not in tags
        ]
        if absent:
            yield ConfigError(
                f"{host.name}: the offline source has no image {first_few(absent)}",
                f"put archives of the images of {release} into images/control and images/hosts of kubernetes.source",
            )
    held = file_system_of(facts, STATE)
    if held is not None and held.free < ROOM:
        yield ConfigError(
            f"{host.name}: {STATE} has {held.free >> 20} MiB free (on {held.at}), and an upgrade needs {ROOM >> 20} MiB",
            f"free space on {host.name}: du -xh -d2 {held.at} | sort -h shows what fills it",
        )


def _newest(versions: tuple[str, ...], wanted: Release) -> Release | None:
    known = [parsed_release(version.rpartition(":")[2]) for version in versions]
    fitting = [
        one
        for one in known
        if one and one.minor == wanted.minor and wanted.patch in (None, one.patch)
    ]
    return max(fitting, key=lambda one: one.patch or 0, default=None)


def has_no_place(
    site: Site, hosts: tuple[str, ...], facts: Mapping[str, HostFacts]
) -> Iterator[ApplianceError]:
    """Return hosts whose pods would find no other host that is ready and not cordoned."""
    nodes = _nodes(site, facts)
    if nodes is None or takes_pods(site) < 2:
        return
    able = {n.name for n in nodes if n.ready and not n.cordoned and n.owner == "kubernetes"}
    stuck = [host for host in hosts if not able - {host}]
    if stuck:
        closed = [n.name for n in nodes if n.cordoned or not n.ready]
        yield ConfigError(
            f"{stuck[0]}: the pods that a drain evicts have no other host (not ready or cordoned: {first_few(closed)})",
            f"bring one of them back: kubectl uncordon {closed[0]}" if closed else "add a host",
        )


def _nodes(site: Site, facts: Mapping[str, HostFacts]) -> tuple[KubernetesNode, ...] | None:
    for host in site.with_role(Role.CONTROL):
        known = facts.get(host.name)
        if known and known.kubernetes and known.kubernetes.nodes is not None:
            return known.kubernetes.nodes
    return None


READINESS = Readiness(request=request, lacks=lacks, proofs=PROOFS, place=has_no_place)
