"""Checks the requirements of a host in a cluster, before stage kubernetes changes anything, and afterwards."""

from collections.abc import Iterable, Iterator

from appliance.checks.check import Check, HostCheck, Nature, View, failed, not_assessed, passed
from appliance.errors import ConfigError
from appliance.models.facts import HostFacts
from appliance.models.facts_host import Filesystem
from appliance.models.result import Judgement, place
from appliance.models.site import Host, Role
from appliance.stages.context import RoleContext, Shared
from appliance.stages.kubernetes import ids
from appliance.stages.kubernetes.facts import Ground
from appliance.stages.kubernetes.variables.containerd import containerd_release
from appliance.stages.kubernetes.variables.releases import options, release

MEMBERS = frozenset({Role.CONTROL, Role.GPU})
CGROUP_2_SINCE = 35
"""From this release on, kubelet does not start with cgroup v1 unless configured to (changelog 1.35)."""
LEAST_ROOM = 10 << 30
"""Own choice, for images of the control plane and operators, and logs."""
STATE = "/var/lib"
MODULES = ("br_netfilter", "overlay")
PORTS = {
    "2379": "etcd",
    "2380": "etcd",
    "6443": "the API server",
    "10250": "kubelet",
    "10256": "kube-proxy",
    "10257": "kube-controller-manager",
    "10259": "kube-scheduler",
}
EVERYWHERE = ("10250", "10256")
CARRIED = {("debian", "12"): "1.6", ("debian", "13"): "1.7"}
"""containerd by distributions with a fixed release; the RHEL family has none."""


def judge_ground(view: View, host: Host, facts: HostFacts) -> Iterable[Judgement]:
    """Return a result for each obstacle, or one pass."""
    found = facts.ground
    if found is None or "ground" in facts.errors:
        return [not_assessed(host.name, facts.gap("ground"))]
    container = bool(facts.os.container)
    obstacles = [*_always(view, host, facts)]
    if not container:
        obstacles += _kernel(host, found)
    if not found.ours:
        obstacles += _strangers(view, host, found)
        if not container:
            obstacles += [
                *_swapped(host, facts, found),
                *_room(host, facts),
                *_carried(view, host, facts),
            ]
    return obstacles or [passed(host.name, evidence="fit for a cluster")]


def judge_swap(view: View, host: Host, facts: HostFacts) -> Iterable[Judgement]:
    """Pass if swap is off: kubelet does not start with swap."""
    del view
    found = facts.ground
    if facts.os.container:
        told = "swap belongs to the machine, and kubelet is configured to tolerate it"
        return [passed(host.name, evidence=told)]
    if found is None or "ground" in facts.errors:
        return [not_assessed(host.name, facts.gap("ground"))]
    if not found.swaps:
        return [passed(host.name, "off", evidence="/proc/swaps")]
    cause = f"swap is on: {', '.join(found.swaps)}; kubelet cannot restart while swap is on"
    fix = "appliance deploy turns it off; find the unit that turned it on: systemctl list-dependencies swap.target"
    return [failed(host.name, cause, fix, value="on")]


def _always(view: View, host: Host, facts: HostFacts) -> Iterator[Judgement]:
    """Report obstacles that also keep a running kubelet from its next start."""
    context = RoleContext(view.profile, view.site, host, {}, view.facts, Shared())
    try:
        chosen = release(context)
    except ConfigError:
        return
    if chosen.minor < CGROUP_2_SINCE or facts.os.container:
        return
    at = place(host.name, "cgroups")
    if not facts.os.cgroup:
        yield not_assessed(at, facts.gap("os", "no control groups were found"))
    elif facts.os.cgroup != "v2":
        cause = (
            f"control groups are {facts.os.cgroup}, and kubelet {chosen} starts on version 2 only"
        )
        fix = "boot with systemd.unified_cgroup_hierarchy=1 on the kernel's command line, or choose Kubernetes 1.34"
        yield failed(at, cause, fix, value=facts.os.cgroup)


def _kernel(host: Host, found: Ground) -> Iterator[Judgement]:
    for name in MODULES:
        state = found.modules.get(name)
        if state is None:
            yield not_assessed(place(host.name, name), f"module {name} was not read")
        elif not state:
            cause = f"the kernel has no module {name}, and it cannot be loaded"
            fix = "install the modules of the running kernel (Ubuntu: linux-modules-extra), or boot a kernel that has them"
            yield failed(place(host.name, name), cause, fix)


def _strangers(view: View, host: Host, found: Ground) -> Iterator[Judgement]:
    """Report other clusters, ports and routes on a host that is not in the cluster yet."""
    if found.clusters:
        cause = f"it already belongs to a cluster: {', '.join(found.clusters)}"
        fix = "remove it from that cluster (kubeadm reset, k3s-uninstall.sh), or from this site"
        yield failed(place(host.name, "cluster"), cause, fix)
    needed = PORTS if Role.CONTROL in host.roles else EVERYWHERE
    for port, program in sorted(found.listeners.items()):
        if port in needed and not found.clusters:
            cause = (
                f"port {port} is used by {program or 'another program'}, but {PORTS[port]} needs it"
            )
            yield failed(
                place(host.name, port),
                cause,
                f"ss -lntp 'sport = :{port}' shows the program; stop it",
            )
    given = options(view.site)
    for key in ("pod_network", "service_network"):
        network = getattr(given, key)
        for way in found.ways_to(network):
            cause = f"it has a route to {way.replace(' ', ' by ')}, which is in kubernetes.{key} ({network})"
            yield failed(
                place(host.name, key),
                cause,
                f"give kubernetes.{key} addresses of its own",
                aspect=f"route to {way}",
            )


def _swapped(host: Host, facts: HostFacts, found: Ground) -> Iterator[Judgement]:
    used = sum(found.swaps.values())
    at = place(host.name, "swap")
    if used and not facts.memory.total:
        yield not_assessed(at, facts.gap("cpu"))
    elif used > facts.memory.available:
        cause = (
            f"swap cannot be turned off: {', '.join(found.swaps)} hold {used >> 20} MiB,"
            f" and {facts.memory.available >> 20} MiB of memory are available"
        )
        yield failed(
            at,
            cause,
            "stop programs that use the memory: ps aux --sort=-rss on the host lists them",
        )


def _room(host: Host, facts: HostFacts) -> Iterator[Judgement]:
    held, at = file_system_of(facts, STATE), place(host.name, STATE)
    if held is None:
        yield not_assessed(at, facts.gap("filesystems", f"no file system of {STATE} was read"))
    elif held.free < LEAST_ROOM:
        cause = f"{STATE} has {held.free >> 20} MiB free (on {held.at}), but images need {LEAST_ROOM >> 30} GiB"
        yield failed(
            at,
            cause,
            f"free space on {host.name}: du -xh -d2 {held.at} | sort -h shows the largest directories",
            value=held.free,
        )


def file_system_of(facts: HostFacts, path: str) -> Filesystem | None:
    """Return the file system of a directory."""
    around = [
        f for f in facts.filesystems if path == f.at or path.startswith(f.at.rstrip("/") + "/")
    ]
    return max(around, key=lambda f: len(f.at), default=None)


def _carried(view: View, host: Host, facts: HostFacts) -> Iterator[Judgement]:
    """Judge the distribution's release of containerd."""
    if view.site.repositories.containerd.source != "distribution" or options(view.site).offline(
        "packages"
    ):
        return
    wanted = containerd_release(
        RoleContext(view.profile, view.site, host, {}, view.facts, Shared())
    )
    version = facts.os.version_id.split(".")[0]
    system = f"{facts.os.id} {version}"
    lacks = "rhel" in (facts.os.id, *facts.os.like)
    there = CARRIED.get((facts.os.id, version), "" if lacks else wanted)
    if wanted.split(".")[:2] == there.split(".")[:2]:
        return
    cause = f"{system} carries {f'containerd {there}' if there else 'no containerd'}, but the site requires {wanted}"
    fix = "set repositories.containerd.source: docker" + (
        f', or kubernetes.containerd: "{there}"' if there else ""
    )
    yield failed(place(host.name, "containerd"), cause, fix)


CHECKS: tuple[Check, ...] = (
    HostCheck(
        ids.GROUND,
        "The host meets the requirements of Kubernetes",
        MEMBERS,
        judge_ground,
        "Requirements that stage kubernetes checks before it changes a host: control groups version 2 (from 1.35 on), the modules "
        "br_netfilter and overlay, free ports, no other cluster, no route into the cluster's networks, swap that can be turned off, and "
        "disk space for images. If one is missing or unknown, the plan blocks the host with the reason. Afterwards only control groups and "
        "modules are checked.",
        "10 GiB free for /var/lib; own choice",
        nature=Nature.NEED,
        by_container=True,
    ),
    HostCheck(
        ids.SWAP,
        "Swap is off",
        MEMBERS,
        judge_swap,
        "kubelet enforces the memory limits of pods and does not start with swap. The stage turns swap off, removes it from /etc/fstab and "
        "masks swap.target. Usual causes if it is on again: a partition or file added later, zram, or swapon by hand.",
        by_container=True,
    ),
)
