"""Rules over the site's Kubernetes cluster: its control planes, networks, releases and owners of hosts."""

from collections.abc import Iterator
from ipaddress import IPv4Network

from appliance.config import certificate
from appliance.config.compatibility import clashes
from appliance.config.finding import Finding, KeyPath
from appliance.config.rules.base import Case, Rule, repeated
from appliance.config.rules.hosts import owned
from appliance.config.rules.networks import outside, placed
from appliance.config.rules.reserved import inside, is_for_hosts
from appliance.errors import ConfigError
from appliance.models.site import Owner, Role
from appliance.stages.kubernetes import repository_rules
from appliance.stages.kubernetes.site import KubernetesOptions, OidcIssuer
from appliance.stages.kubernetes.variables import BRIDGE_PREFIX, KUBE_VIP, members, pod_subnet
from appliance.stages.kubernetes.variables.containerd import UPSTREAM_PLUGINS
from appliance.stages.kubernetes.variables.kubelet import EVICTION_MIB, KUBE_MEMORY_MIB
from appliance.stages.kubernetes.variables.oidc import RESERVED, SINCE
from appliance.stages.kubernetes.variables.releases import NEWEST, OLDEST, parse, told

SECTION = "kubernetes"
MANAGEMENT = "management"
OWN_ISSUER = "https://kubernetes.default.svc.cluster.local"
"""kubeadm's --service-account-issuer; the API server takes no provider of that name (apiserver, ValidateAuthenticationConfiguration)."""
SMALLEST = {"pod_network": 20, "service_network": 24}
"""Longest prefix: 16 hosts of 256 pods, and a service network with room for kubeadm's name server."""


def _own(case: Case) -> KubernetesOptions | None:
    """The section, where the site asks for a cluster of its own making."""
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
            message = f"{count} control planes need one address that stays when a host fails"
            yield case.problem(path, message, "take a free one of network management")
        return
    management = case.site.networks.get(MANAGEMENT)
    if count < 2:
        yield case.problem(
            path, "there is one control plane, whose own address it is", "take this line out"
        )
    elif management:
        yield from placed(case, path, given.address, MANAGEMENT, management.cidr)
    # Who holds it answers for it: a machine that has it already is heard no more.
    taken = {address: whose for whose, address in (*outside(case), *owned(case))}
    if given.address in taken:
        message = f"{given.address} is also {case.also(taken[given.address])}"
        yield case.problem(path, message, "take one that no machine has")


def address_image(case: Case) -> Iterator[Finding]:
    """What runs with an administrator's rights on every control plane is the very image somebody chose."""
    given = _own(case)
    if given is None:
        return
    path: KeyPath = (SECTION, "address_image")
    if given.address is None and given.address_image is not None:
        yield case.problem(path, "there is no address to hold", "take this line out")
    if given.address is not None and not (given.address_image or given.offline("images")):
        yield case.problem(
            path,
            "kube-vip would be fetched by a tag, which can be given to another image",
            f"name it with its digest: skopeo inspect --format '{{{{.Digest}}}}' docker://{KUBE_VIP} prints it",
        )


def trial_image(case: Case) -> Iterator[Finding]:
    """What runs as root on hosts, for benchmarks, is the very image somebody chose."""
    given = _own(case)
    if given is None or given.trial_image is None or "@" in given.trial_image:
        return
    if not given.offline("images"):
        yield case.problem(
            (SECTION, "trial_image"),
            f"{given.trial_image} would be fetched by a tag, which can be given to another image",
            f"name it with its digest: skopeo inspect --format '{{{{.Digest}}}}' docker://{given.trial_image} prints it",
        )


def networks(case: Case) -> Iterator[Finding]:
    """Pods and services have addresses nobody else has: a packet to them must never leave by InfiniBand."""
    given = _own(case)
    if given is None:
        return
    own: dict[str, IPv4Network] = {
        "pod_network": given.pod_network,
        "service_network": given.service_network,
    }
    for key, cidr in own.items():
        path: KeyPath = (SECTION, key)
        # Addresses that carriers share (RFC 6598) lead nowhere outside, either.
        if cidr.is_global or not is_for_hosts(cidr):
            yield case.problem(path, f"{cidr} is not private", "take a part of 10.0.0.0/8")
        if cidr.prefixlen > SMALLEST[key]:
            message = f"{cidr} has too few addresses"
            yield case.problem(path, message, f"take a /{SMALLEST[key]} or larger")
        for name, network in case.site.networks.items():
            if network.cidr.overlaps(cidr):
                where = case.also(("networks", name, "cidr"))
                message = f"{cidr} overlaps {network.cidr} of {where}"
                yield case.problem(path, message, "give the cluster ranges of its own")
        for whose, address in outside(case):
            if address in cidr and not any(
                address in network.cidr for network in case.site.networks.values()
            ):
                message = (
                    f"{cidr} holds {address} of {case.also(whose)}, which hosts could not reach"
                )
                yield case.problem(path, message, "give the cluster ranges of its own")
    if given.pod_network.overlaps(given.service_network):
        message = f"{given.service_network} overlaps pod_network ({given.pod_network})"
        yield case.problem((SECTION, "service_network"), message, "keep them apart")


def bridge(case: Case) -> Iterator[Finding]:
    """Bridged hosts share one Ethernet segment, and none has the pods' addresses of another."""
    given = _own(case)
    if given is None or given.network != "bridge" or given.pod_network.prefixlen > BRIDGE_PREFIX:
        return
    subnets: list[tuple[KeyPath, IPv4Network]] = [
        (("hosts", index, "address"), pod_subnet(case.site, host))
        for index, host in enumerate(case.site.hosts)
        if host in members(case.site)
    ]
    for path, subnet, first in repeated(subnets):
        message = f"its pods would have the addresses {subnet} of {case.also(first)}"
        yield case.problem(path, message, "take a larger kubernetes.pod_network, or calico")


def network_version(case: Case) -> Iterator[Finding]:
    """Plain routes have no chart."""
    given = _own(case)
    if given is not None and given.network == "bridge" and given.network_version:
        path: KeyPath = (SECTION, "network_version")
        yield case.problem(path, "bridge has no chart", "take this line out")


def network_policies(case: Case) -> Iterator[Finding]:
    """Who enforces NetworkPolicies is there once, and comes from somewhere."""
    given = _own(case)
    if given is None or given.network_policies == "none":
        return
    path: KeyPath = (SECTION, "network_policies")
    if given.network != "bridge":
        message = f"{given.network} enforces NetworkPolicies itself"
        yield case.problem(path, message, "take this line out")
    elif not given.offline("manifests"):
        yield case.problem(
            path,
            "wants a manifest of the offline source, which brings none",
            "name its folder under kubernetes.source with manifests among source_parts, or write none",
        )


def releases(case: Case) -> Iterator[Finding]:
    """The release is one there are tables for, and goes with what the profile runs on it."""
    given = _own(case)
    if given is None or given.version is None:
        return
    path: KeyPath = (SECTION, "version")
    try:
        chosen = parse(given.version)
    except ConfigError as error:
        yield case.problem(path, error.message, f"take one of 1.{OLDEST} to 1.{NEWEST}")
        return
    if case.site.simulated or case.profile is None:
        return
    base = {**case.profile.software.model_dump(), **case.site.software}
    runtime = {"containerd": given.containerd} if given.containerd else {}
    for clash in clashes({**base, **runtime, "kubernetes": f"1.{chosen.minor}"}):
        if "kubernetes" in (clash.other, clash.component):
            yield case.problem(path, clash.message, clash.remedy)


def oidc(case: Case) -> Iterator[Finding]:
    """The release reads such issuers, and no two of them can name the same person."""
    given = _own(case)
    if given is None or not given.oidc:
        return
    chosen = told(given.version or _release_of(case))
    if chosen is not None and chosen.minor < SINCE:
        message = f"Kubernetes 1.{chosen.minor} does not read it"
        yield case.problem((SECTION, "oidc"), message, f"take 1.{SINCE} or newer, or leave it out")
    urls: list[tuple[KeyPath, str]] = [
        ((SECTION, "oidc", i, "issuer"), one.issuer) for i, one in enumerate(given.oidc)
    ]
    for i, one in enumerate(given.oidc):
        yield from _issuer(case, i, one)
    for path, url, first in repeated(urls):
        yield case.problem(path, f"{url} stands twice ({case.also(first)})", "keep one")
    prefixes: list[tuple[KeyPath, str]] = [
        ((SECTION, "oidc", i, "prefix"), one.prefix or "") for i, one in enumerate(given.oidc)
    ]
    for path, prefix, first in repeated(prefixes):
        message = f"two issuers with the prefix {prefix or 'none'} can name the same person ({case.also(first)})"
        yield case.problem(path, message, "give each a prefix of its own, as sso:")


def _issuer(case: Case, index: int, given: OidcIssuer) -> Iterator[Finding]:
    """What keeps an API server from starting, or from believing anybody."""
    path: KeyPath = (SECTION, "oidc", index)
    if given.issuer.rstrip("/") == OWN_ISSUER:
        message = f"{given.issuer} is the cluster's own issuer, of its service accounts"
        yield case.problem((*path, "issuer"), message, "name the one that people log in at")
    if given.ca and (why := certificate.complaint(given.ca)):
        yield case.problem((*path, "ca"), why, certificate.WHOLE)
    if given.prefix and given.prefix.startswith(RESERVED):
        message = f"names that begin with {given.prefix} are refused, so nobody could log in"
        yield case.problem((*path, "prefix"), message, "take another, as sso:")


def _release_of(case: Case) -> str:
    return case.site.software.get("kubernetes") or (
        case.profile.software.kubernetes or "" if case.profile else ""
    )


def reserved(case: Case) -> Iterator[Finding]:
    """A GPU host has something left for pods: kubelet does not start where it has not."""
    given = _own(case)
    if given is None or case.profile is None or case.site.simulated:
        return
    host, pages = case.profile.hardware.host, case.profile.stages.hugepages_2m << 1
    memory = (host.memory_gib << 10) - pages
    kept = given.kubelet.system_memory_mib + KUBE_MEMORY_MIB + EVICTION_MIB
    path: KeyPath = (SECTION, "kubelet")
    if given.kubelet.system_cpus >= host.cores:
        message = (
            f"leaves pods none of the {host.cores} cores a host of profile {case.profile.name} has"
        )
        yield case.problem((*path, "system_cpus"), message, f"at most {host.cores - 1}")
    if kept >= memory:
        message = (
            f"leaves pods none of the {memory:,} MiB a host of profile {case.profile.name} has"
        )
        yield case.problem((*path, "system_memory_mib"), message, "write fewer")


def plugins(case: Case) -> Iterator[Finding]:
    """Nothing is mounted over the folder in which a pod network has its plugins."""
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
            message = f"{at} would hide {UPSTREAM_PLUGINS}, where {given.network} has its plugins"
            yield case.problem(path, message, "mount beside it, as at /opt/apps or /data")


def owners(case: Case) -> Iterator[Finding]:
    """Only a GPU host has an owner, and Kubernetes owns none where there is no cluster."""
    for index, host in enumerate(case.site.hosts):
        path: KeyPath = ("hosts", index, "owner")
        if host.owner is None:
            continue
        if Role.GPU not in host.roles:
            message = f"{host.name} has no GPUs to give work to"
            yield case.problem(path, message, "take this line out")
        elif host.owner is Owner.KUBERNETES and case.site.kubernetes is None:
            message = "the site has no Kubernetes"
            yield case.problem(path, message, "add a section kubernetes, or say slurm")


def kubeconfig(case: Case) -> Iterator[Finding]:
    """The kubeconfig of a cluster that is there already is where the site says."""
    given = case.site.kubernetes
    if given is None or given.external is None:
        return
    path: KeyPath = (SECTION, "external")
    if not (case.folder / given.external).is_file():
        message = f"{given.external} is not a file"
        yield case.problem(path, message, "the path starts at the site's folder")


RULES: tuple[Rule, ...] = (
    *repository_rules.RULES,
    control_planes,
    address_image,
    trial_image,
    networks,
    bridge,
    network_version,
    network_policies,
    releases,
    oidc,
    reserved,
    plugins,
    owners,
    kubeconfig,
)
