"""Rules for the site's Kubernetes cluster: its control planes, networks, releases and owners of hosts."""

from collections.abc import Iterator
from ipaddress import IPv4Network

from appliance.config import certificate
from appliance.config.compatibility import clashes
from appliance.config.finding import Finding, KeyPath
from appliance.config.rules.base import Case, Rule, repeated
from appliance.config.rules.hosts import owned_addresses
from appliance.config.rules.networks import outside, placed
from appliance.config.rules.reserved import inside, is_for_hosts
from appliance.errors import ConfigError
from appliance.models.site import Owner, Role
from appliance.stages.kubernetes import repository_rules
from appliance.stages.kubernetes.charts import component
from appliance.stages.kubernetes.site import KubernetesOptions, OidcIssuer
from appliance.stages.kubernetes.variables import BRIDGE_PREFIX, KUBE_VIP, members, pod_subnet
from appliance.stages.kubernetes.variables.containerd import UPSTREAM_PLUGINS
from appliance.stages.kubernetes.variables.kubelet import EVICTION_MIB, KUBE_MEMORY_MIB
from appliance.stages.kubernetes.variables.oidc import RESERVED, SINCE
from appliance.stages.kubernetes.variables.releases import NEWEST, OLDEST, parse, parsed_release

SECTION = "kubernetes"
EXAMPLES = {"gpu_operator": "26.3", "device_plugin": "0.20"}
"""Example releases of the charts with a device plugin."""
MANAGEMENT = "management"
OWN_ISSUER = "https://kubernetes.default.svc.cluster.local"
"""kubeadm's --service-account-issuer; the API server accepts no provider of that name (apiserver, ValidateAuthenticationConfiguration)."""
NODE_PREFIX = 24
"""Prefix of a node's block if the chart's clusterPoolIPv4MaskSize is not set (Cilium, cluster-pool)."""
POD_BLOCK = 250
"""Pods that the addresses of such a block suffice for."""
SMALLEST = {"pod_network": 20, "service_network": 24}
"""Longest prefix: 16 hosts of 256 pods, and a service network with room for kubeadm's name server."""


def _own(case: Case) -> KubernetesOptions | None:
    """The section, if the site has a cluster of its own."""
    given = case.site.kubernetes
    return given if given is not None and given.external is None else None


def control_planes(case: Case) -> Iterator[Finding]:
    """One control plane, or three and more that share an address in the management network."""
    given = _own(case)
    if given is None or not case.checked.listed("hosts"):
        return
    count = len(case.site.with_role(Role.CONTROL))
    path: KeyPath = (SECTION, "address")
    if given.address is None:
        if count > 1:
            message = (
                f"{count} control planes need a virtual address that survives the failure of a host"
            )
            yield case.problem(path, message, "use a free address of network management")
        return
    management = case.site.networks.get(MANAGEMENT)
    if count < 2:
        yield case.problem(
            path, "is not needed: the single control plane uses its own address", "remove this line"
        )
    elif management:
        yield from placed(case, path, given.address, MANAGEMENT, management.cidr)
    # kube-vip announces the address by ARP: another machine that has it becomes unreachable.
    taken = {address: whose for whose, address in (*outside(case), *owned_addresses(case))}
    if given.address in taken:
        message = f"{given.address} is also {case.also(taken[given.address])}"
        yield case.problem(path, message, "use an address that no machine has")


def address_image(case: Case) -> Iterator[Finding]:
    """An image with an administrator's rights on every control plane is pinned by its digest."""
    given = _own(case)
    if given is None:
        return
    path: KeyPath = (SECTION, "address_image")
    if given.address is None and given.address_image is not None:
        yield case.problem(
            path, "is not needed: there is no address to announce", "remove this line"
        )
    if given.address is not None and not (given.address_image or given.offline("images")):
        yield case.problem(
            path,
            "kube-vip is named by a tag, which can be moved to another image",
            f"name it with its digest: skopeo inspect --format '{{{{.Digest}}}}' docker://{KUBE_VIP} prints it",
        )


def trial_image(case: Case) -> Iterator[Finding]:
    """The trial image, which runs as root on hosts, is pinned by its digest."""
    given = _own(case)
    if given is None or given.trial_image is None or "@" in given.trial_image:
        return
    if not given.offline("images"):
        yield case.problem(
            (SECTION, "trial_image"),
            f"{given.trial_image} is named by a tag, which can be moved to another image",
            f"name it with its digest: skopeo inspect --format '{{{{.Digest}}}}' docker://{given.trial_image} prints it",
        )


def networks(case: Case) -> Iterator[Finding]:
    """Pod and service networks are unique: their packets must never leave by InfiniBand."""
    given = _own(case)
    if given is None:
        return
    own: dict[str, IPv4Network] = {
        "pod_network": given.pod_network,
        "service_network": given.service_network,
    }
    for key, cidr in own.items():
        path: KeyPath = (SECTION, key)
        # Shared carrier addresses (RFC 6598) are not routed outside, either.
        if cidr.is_global or not is_for_hosts(cidr):
            yield case.problem(path, f"{cidr} is not private", "use a part of 10.0.0.0/8")
        if cidr.prefixlen > SMALLEST[key]:
            message = f"{cidr} has too few addresses"
            yield case.problem(path, message, f"use a /{SMALLEST[key]} or larger")
        for name, network in case.site.networks.items():
            if network.cidr.overlaps(cidr):
                where = case.also(("networks", name, "cidr"))
                message = f"{cidr} overlaps {network.cidr} of {where}"
                yield case.problem(path, message, "give the cluster ranges of its own")
        for whose, address in outside(case):
            if address in cidr and not any(
                address in network.cidr for network in case.site.networks.values()
            ):
                message = f"{cidr} contains {address} of {case.also(whose)}, which would become unreachable"
                yield case.problem(path, message, "give the cluster ranges of its own")
    if given.pod_network.overlaps(given.service_network):
        message = f"{given.service_network} overlaps pod_network ({given.pod_network})"
        yield case.problem((SECTION, "service_network"), message, "use separate ranges")


def bridge(case: Case) -> Iterator[Finding]:
    """Bridged hosts share one Ethernet segment, and their pod subnets are distinct."""
    given = _own(case)
    if given is None or given.network != "bridge" or given.pod_network.prefixlen > BRIDGE_PREFIX:
        return
    subnets: list[tuple[KeyPath, IPv4Network]] = [
        (("hosts", index, "address"), pod_subnet(case.site, host))
        for index, host in enumerate(case.site.hosts)
        if host in members(case.site)
    ]
    for path, subnet, first in repeated(subnets):
        message = f"its pods would use the addresses {subnet} of {case.also(first)}"
        yield case.problem(path, message, "use a larger kubernetes.pod_network, or calico")


def node_blocks(case: Case) -> Iterator[Finding]:
    """Cilium assigns each node a block of the pod network (IPAM mode cluster-pool); calico assigns smaller blocks as needed."""
    given = _own(case)
    if given is None or given.network != "cilium":
        return
    count, prefix = len(members(case.site)), given.pod_network.prefixlen
    blocks = 2 ** max(0, NODE_PREFIX - prefix)
    if blocks < count:
        longest = NODE_PREFIX - (count - 1).bit_length()
        message = f"{given.pod_network} has {blocks} blocks of /{NODE_PREFIX}, but {count} nodes need one each"
        fix = f"use a /{longest} or larger, or calico, which uses smaller blocks"
        yield case.problem((SECTION, "pod_network"), message, fix)


def network_version(case: Case) -> Iterator[Finding]:
    """Plain routes have no chart."""
    given = _own(case)
    if given is not None and given.network == "bridge" and given.network_version:
        path: KeyPath = (SECTION, "network_version")
        yield case.problem(path, "bridge has no chart", "remove this line")


def network_policies(case: Case) -> Iterator[Finding]:
    """NetworkPolicies are enforced by exactly one component, which has a source."""
    given = _own(case)
    if given is None or given.network_policies == "none":
        return
    path: KeyPath = (SECTION, "network_policies")
    if given.network != "bridge":
        message = f"{given.network} enforces NetworkPolicies itself"
        yield case.problem(path, message, "remove this line")
    elif not given.offline("manifests"):
        yield case.problem(
            path,
            "needs a manifest in the offline source, which contains none",
            "name its folder under kubernetes.source with manifests among source_parts, or write none",
        )


def releases(case: Case) -> Iterator[Finding]:
    """The release is in the tables, and compatible with the profile's software."""
    given = _own(case)
    if given is None or given.version is None:
        return
    path: KeyPath = (SECTION, "version")
    try:
        chosen = parse(given.version)
    except ConfigError as error:
        yield case.problem(path, error.message, f"use one of 1.{OLDEST} to 1.{NEWEST}")
        return
    if case.site.simulated or case.profile is None:
        return
    base = {**case.profile.software.model_dump(), **case.site.software}
    runtime = {"containerd": given.containerd} if given.containerd else {}
    for clash in clashes({**base, **runtime, "kubernetes": f"1.{chosen.minor}"}):
        if "kubernetes" in (clash.other, clash.component):
            yield case.problem(path, clash.message, clash.remedy)


def oidc(case: Case) -> Iterator[Finding]:
    """The release supports such issuers, and their user names are distinct."""
    given = _own(case)
    if given is None or not given.oidc:
        return
    chosen = parsed_release(given.version or _release_of(case))
    if chosen is not None and chosen.minor < SINCE:
        message = f"Kubernetes 1.{chosen.minor} does not support it"
        yield case.problem((SECTION, "oidc"), message, f"use 1.{SINCE} or newer, or remove it")
    urls: list[tuple[KeyPath, str]] = [
        ((SECTION, "oidc", i, "issuer"), one.issuer) for i, one in enumerate(given.oidc)
    ]
    for i, one in enumerate(given.oidc):
        yield from _issuer(case, i, one)
    for path, url, first in repeated(urls):
        yield case.problem(path, f"{url} is given twice ({case.also(first)})", "keep one")
    prefixes: list[tuple[KeyPath, str]] = [
        ((SECTION, "oidc", i, "prefix"), one.prefix or "") for i, one in enumerate(given.oidc)
    ]
    for path, prefix, first in repeated(prefixes):
        message = f"two issuers with the prefix {prefix or 'none'} can produce the same user name ({case.also(first)})"
        yield case.problem(path, message, "give each its own prefix, such as sso:")


def _issuer(case: Case, index: int, given: OidcIssuer) -> Iterator[Finding]:
    """What would keep an API server from starting, or from accepting any user."""
    path: KeyPath = (SECTION, "oidc", index)
    if given.issuer.rstrip("/") == OWN_ISSUER:
        message = f"{given.issuer} is the cluster's own issuer of service accounts"
        yield case.problem((*path, "issuer"), message, "name the issuer where people log in")
    if given.ca and (why := certificate.complaint(given.ca)):
        yield case.problem((*path, "ca"), why, certificate.WHOLE)
    if given.prefix and given.prefix.startswith(RESERVED):
        message = f"names that begin with {given.prefix} are refused, so no one could log in"
        yield case.problem((*path, "prefix"), message, "use another prefix, such as sso:")


def _release_of(case: Case) -> str:
    return case.site.software.get("kubernetes") or (
        case.profile.software.kubernetes or "" if case.profile else ""
    )


def reserved(case: Case) -> Iterator[Finding]:
    """A GPU host keeps resources for pods: otherwise kubelet does not start."""
    given = _own(case)
    if given is None or case.profile is None or case.site.simulated:
        return
    kept = given.kubelet.system_memory_mib + KUBE_MEMORY_MIB + EVICTION_MIB
    path: KeyPath = (SECTION, "kubelet")
    for profile in case.profiles:
        host, pages = profile.hardware.host, profile.stages.hugepages_2m << 1
        memory = (host.memory_gib << 10) - pages
        if given.kubelet.system_cpus >= host.cores:
            message = (
                f"leaves pods none of the {host.cores} cores of a host of profile {profile.name}"
            )
            yield case.problem((*path, "system_cpus"), message, f"at most {host.cores - 1}")
        if kept >= memory:
            message = f"leaves pods none of the {memory:,} MiB of a host of profile {profile.name}"
            yield case.problem((*path, "system_memory_mib"), message, "reserve less")


def max_pods(case: Case) -> Iterator[Finding]:
    """Each host's addresses suffice for its pods: except with calico, a host has one block of them."""
    given = _own(case)
    if given is None or given.network == "calico" or given.kubelet.max_pods <= POD_BLOCK:
        return
    path: KeyPath = (SECTION, "kubelet", "max_pods")
    message = f"{given.kubelet.max_pods} pods, but network {given.network} gives a host one block of /{NODE_PREFIX}"
    yield case.problem(path, message, f"at most {POD_BLOCK}, or network: calico")


def plugins(case: Case) -> Iterator[Finding]:
    """No mount hides the folder of the pod network's plugins."""
    given = _own(case)
    if given is None or given.network == "bridge":
        return
    storage = case.site.storage
    points: list[tuple[KeyPath, str]] = [
        (("storage", "mounts", i, "at"), mount.at) for i, mount in enumerate(storage.mounts)
    ]
    if storage.scratch:
        points.append((("storage", "scratch", "at"), storage.scratch.at))
    for path, at in points:
        if inside(UPSTREAM_PLUGINS, at) or inside(at, UPSTREAM_PLUGINS):
            message = (
                f"{at} would hide {UPSTREAM_PLUGINS}, which contains the plugins of {given.network}"
            )
            yield case.problem(path, message, "mount it elsewhere, such as at /opt/apps or /data")


def device_plugin(case: Case) -> Iterator[Finding]:
    """The cluster has a device plugin for its GPUs."""
    given = _own(case)
    if given is None or case.profile is None or not case.checked.whole("hosts"):
        return
    if not (key := component(given)) or not case.site.gpu_hosts_of(Owner.KUBERNETES):
        return
    software = {**case.profile.software.model_dump(), **case.site.software}
    if not software.get(key):
        message = f"pods cannot use GPUs: neither site nor profile names a release of {key}, which provides the device plugin"
        remedy = f'add {key}: "{EXAMPLES[key]}" under software; for a device plugin of the site\'s own: kubernetes.device_plugin: own'
        yield case.problem((SECTION, "device_plugin"), message, remedy)


def owners(case: Case) -> Iterator[Finding]:
    """Only a GPU host has an owner, and the site has a section for the owner."""
    has_slurm, has_cluster = case.site.slurm is not None, case.site.kubernetes is not None
    known = case.checked.whole("slurm") and case.checked.whole(SECTION)
    if not (has_slurm or has_cluster) and known and case.site.with_role(Role.GPU):
        message = "no scheduler uses the GPU hosts: sections slurm and kubernetes are both missing"
        remedy = "add kubernetes and scheduler, or slurm (docs/site.md)"
        yield case.problem(("hosts",), message, remedy)
    for index, host in enumerate(case.site.hosts):
        path: KeyPath = ("hosts", index, "owner")
        if host.owner is None:
            continue
        if Role.GPU not in host.roles:
            message = f"{host.name} has no GPUs, so it has no owner"
            yield case.problem(path, message, "remove this line")
        elif host.owner is Owner.KUBERNETES and case.site.kubernetes is None:
            message = "the site has no Kubernetes"
            yield case.problem(path, message, "add a section kubernetes, or write slurm")
        elif host.owner is Owner.SLURM and not has_slurm and known:
            message = "the site has no Slurm"
            yield case.problem(path, message, "add a section slurm, or write kubernetes")


def kubeconfig(case: Case) -> Iterator[Finding]:
    """The kubeconfig of an existing cluster is at the given path."""
    given = case.site.kubernetes
    if given is None or given.external is None:
        return
    path: KeyPath = (SECTION, "external")
    if not (case.folder / given.external).is_file():
        message = f"{given.external} is not a file"
        yield case.problem(path, message, "the path is relative to the site's folder")


RULES: tuple[Rule, ...] = (
    *repository_rules.RULES,
    control_planes,
    address_image,
    trial_image,
    networks,
    bridge,
    node_blocks,
    network_version,
    network_policies,
    releases,
    oidc,
    reserved,
    max_pods,
    plugins,
    device_plugin,
    owners,
    kubeconfig,
)
