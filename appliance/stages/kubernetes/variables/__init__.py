"""Variables of role kubernetes: configuration of kubeadm and kubelet, and values of one host."""

import re
from ipaddress import IPv4Network

from appliance.errors import ConfigError
from appliance.models.facts import HostFacts
from appliance.models.site import Host, Owner, Role, Site
from appliance.stages.base.bundle import address, helm_path
from appliance.stages.base.variables import in_container
from appliance.stages.context import RoleContext, Variables
from appliance.stages.fabric.topology import label_families, node_labels
from appliance.stages.kubernetes import charts
from appliance.stages.kubernetes.site import KubernetesOptions
from appliance.stages.kubernetes.variables import network
from appliance.stages.kubernetes.variables.kubelet import kubelet
from appliance.stages.kubernetes.variables.oidc import authentication
from appliance.stages.kubernetes.variables.releases import (
    CIPHERS,
    CONTROL_TAINT,
    SOCKET,
    Release,
    gates,
    options,
    refuse_leap,
    release,
)
from appliance.stages.kubernetes.variables.static_pods import policies
from appliance.stages.kubernetes.variables.watch import rights, watch

API_PORT = 6443
CHARTS = "appliance/stages/kubernetes/charts.yml"
SETTINGS = "/etc/kubernetes/appliance"
AUDIT_FOLDER = "/var/log/kubernetes"
DNS_NUMBER = 10
"""Number of the name server's address in the service network (kubeadm)."""
KUBE_VIP = "ghcr.io/kube-vip/kube-vip:v0.8.9"
"""kube-vip's name in an offline source, where the digest next to the archive pins it."""
SUBNET_SINCE = (0, 9)
"""First release of kube-vip that requires vip_subnet instead of vip_cidr (v0.8.9, v0.9.0, v1.2.3)."""
BRIDGE_PREFIX = 24
SECRET = "kubernetes_encryption_key"

Document = dict[str, object]


def variables(context: RoleContext) -> Variables:
    """Return all variables of role kubernetes. Raises ConfigError without a control host or its secret, or for an impossible change of release."""
    site, host = context.site, context.host
    given, chosen = options(site), release(context)
    control = control_hosts(site)
    first = control[0]
    is_control = Role.CONTROL in host.roles
    facts = context.own
    refused = _refused(context, chosen)
    container = in_container(site, facts)
    return {
        "kubernetes_state": "present",
        "kubernetes_version": str(chosen),
        "kubernetes_refused": refused,
        "kubernetes_control": is_control,
        "kubernetes_first": host.name == first.name,
        "kubernetes_control_addresses": [str(h.address) for h in control],
        "kubernetes_endpoint": endpoint(site),
        "kubernetes_address": str(host.address),
        "kubernetes_virtual_address": str(given.address or "") if is_control else "",
        "kubernetes_virtual_interface": _interface(context) if given.address else "",
        "kubernetes_virtual_image": (given.address_image or KUBE_VIP) if given.address else "",
        "kubernetes_virtual_subnet": takes_subnet(given.address_image or KUBE_VIP),
        "kubernetes_kubeadm_api": chosen.kubeadm_api,
        "kubernetes_learners": chosen.learners,
        "kubernetes_kubeadm": kubeadm(context, chosen, container) if is_control else [],
        "kubernetes_registration": registration(site, host, chosen),
        "kubernetes_kubelet": kubelet(context, chosen, dns_address(site), container),
        "kubernetes_owner": site.owner(host).value,
        "kubernetes_labels": labels(context) | node_labels(context),
        "kubernetes_label_families": label_families(context),
        "kubernetes_dns": given.dns,
        "kubernetes_dns_spread": is_control and takes_pods(site) > 1,
        "kubernetes_upgrade_skip": _upgrade_skip(given, chosen),
        "kubernetes_network": given.network,
        "kubernetes_network_releases": network.releases(context) if host.name == first.name else [],
        **_gpu_charts(context, host.name == first.name),
        "kubernetes_watch": watch(context),
        "kubernetes_node_rights": [*rights(), *policies(site, chosen.minor)]
        if host.name == first.name
        else [],
        "kubernetes_pod_subnet": str(pod_subnet(site, host)) if given.network == "bridge" else "",
        "kubernetes_pod_routes": _routes(context) if given.network == "bridge" else [],
        "kubernetes_source": given.offline("manifests"),
        "kubernetes_charts": given.offline("charts"),
        **repository(site, facts),
        "kubernetes_helm": helm(site) if is_control else {},
        "kubernetes_container": container,
        "kubernetes_authentication": authentication(given.oidc, chosen) if is_control else {},
        "kubernetes_encryption_key": _encryption_key(context) if is_control else "",
        "kubernetes_backup": given.etcd_backup.model_dump() if is_control else {},
    }


def leaving(context: RoleContext) -> Variables:
    """Return variables of both roles for the removal of a cluster that the site no longer describes."""
    return {
        "containerd_state": "absent",
        "containerd_repository": "",
        "containerd_source": "",
        "kubernetes_state": "absent",
        "kubernetes_control": Role.CONTROL in context.host.roles,
        "kubernetes_version": "",
    }


def _gpu_charts(context: RoleContext, is_first: bool) -> Variables:
    """Return the chart that provides GPUs, and charts of earlier choices to remove. Other hosts install nothing."""
    site, profile = context.site, context.profile
    gone = [
        {"name": chart.name, "namespace": chart.namespace, "chart": chart.chart, "version": "0"}
        for chart in charts.replaced(site, profile)
    ]
    wanted = [charts.arguments(r, CHARTS) for r in charts.releases(site, profile)]
    return {
        "kubernetes_gpu_releases": wanted if is_first else [],
        "kubernetes_gpu_replaced": gone if is_first else [],
        "kubernetes_gpu_runtime": charts.runtime_class(site, profile) if is_first else [],
    }


def _refused(context: RoleContext, chosen: Release) -> str:
    """Return why this host cannot get the release. Raises ConfigError if a control plane cannot.

    A wrong kubelet of another host blocks only that host's stage.
    """
    facts, host = context.own, context.host
    if facts is None or facts.kubernetes is None:
        return ""
    try:
        refuse_leap(host.name, facts.kubernetes.version, chosen)
    except ConfigError as error:
        if Role.CONTROL in host.roles:
            raise
        return f"{error.message}: {error.hint}"
    return ""


def repository(site: Site, facts: HostFacts | None) -> Variables:
    """Return the repository of kubeadm, kubelet and kubectl; "" if the offline source contains them."""
    found = site.repositories.kubernetes
    offline = bool(options(site).offline("packages"))
    return {
        "kubernetes_repository": "" if offline else found.source,
        "kubernetes_repository_mirror": address(site, facts, "kubernetes") or found.mirror or "",
        "kubernetes_repository_key": found.key or "",
        "kubernetes_repository_fingerprint": found.fingerprint or "",
    }


def helm(site: Site) -> dict[str, str]:
    """Return the archive of Helm; none if the offline source has it, or if no chart is installed."""
    given = options(site)
    handed_out = charts.component(given) or site.scheduler
    needed = handed_out or site.workloads or given.network != "bridge"
    brought = not needed or options(site).offline("charts")
    found, bundle = site.repositories.helm, site.repositories.bundle
    url = f"{bundle.rstrip('/')}/{helm_path(found.url)}" if bundle else found.url
    return {} if brought else {"url": url, "sha256": found.sha256}


def _upgrade_skip(given: KubernetesOptions, chosen: Release) -> list[str]:
    return ["addon/coredns"] if given.dns == "supplied" and chosen.upgrade_phases else []


def members(site: Site) -> tuple[Host, ...]:
    """Return hosts of the cluster: control planes and GPU hosts of any owner."""
    return tuple(h for h in site.hosts if {Role.CONTROL, Role.GPU}.intersection(h.roles))


def takes_pods(site: Site) -> int:
    """Return how many hosts can run pods of the cluster's own services; those of Slurm cannot."""
    return sum(
        Role.CONTROL in host.roles or site.owner(host) is Owner.KUBERNETES for host in members(site)
    )


def control_hosts(site: Site) -> tuple[Host, ...]:
    """Return hosts of the control plane; the first creates it. Raises ConfigError if there is none."""
    hosts = site.with_role(Role.CONTROL)
    if not hosts:
        raise ConfigError(
            "no host has the role control, which carries the control plane",
            "give one host of the site, or three, the role control",
        )
    return hosts


def endpoint(site: Site) -> str:
    """Return the address of the API: the virtual address, or the only control host."""
    return f"{options(site).address or control_hosts(site)[0].address}:{API_PORT}"


def dns_address(site: Site) -> str:
    """Return the address of the cluster's name server."""
    return str(options(site).service_network[DNS_NUMBER])


def pod_subnet(site: Site, host: Host) -> IPv4Network:
    """Return a bridged host's pod subnet, from the last bits of its address, so that it stays when other hosts change."""
    network = options(site).pod_network
    parts = 1 << max(0, BRIDGE_PREFIX - network.prefixlen)
    number = int(host.address) % parts
    start = network.network_address + number * (1 << (32 - BRIDGE_PREFIX))
    return IPv4Network((start, BRIDGE_PREFIX))


def kubeadm(context: RoleContext, chosen: Release, container: bool) -> list[Document]:
    """Return kubeadm's documents: this control plane, the cluster, defaults of kubelet and kube-proxy."""
    site, host = context.site, context.host
    api = f"kubeadm.k8s.io/{chosen.kubeadm_api}"
    init: Document = {
        "apiVersion": api,
        "kind": "InitConfiguration",
        "localAPIEndpoint": {"advertiseAddress": str(host.address), "bindPort": API_PORT},
        "nodeRegistration": registration(site, host, chosen),
    }
    return [
        init,
        _cluster(context, api, chosen, container),
        kubelet(context, chosen, dns_address(site), container),
        _proxy(site, container),
    ]


def registration(site: Site, host: Host, chosen: Release) -> Document:
    """Return a host's registration: name, runtime, taints and address."""
    control = Role.CONTROL in host.roles
    taints = [{"key": CONTROL_TAINT, "effect": "NoSchedule"}] if control else []
    return {
        "name": host.name,
        "criSocket": SOCKET,
        "taints": taints,
        "kubeletExtraArgs": chosen.arguments({"node-ip": str(host.address)}),
    }


def labels(context: RoleContext) -> dict[str, str]:
    """Return labels by which a scheduler can select hosts."""
    host, profile = context.host, context.profile
    gpu = Role.GPU in host.roles
    return {"appliance/role": "gpu" if gpu else "control", "appliance/profile": profile.name}


def _cluster(context: RoleContext, api: str, chosen: Release, container: bool) -> Document:
    site, given = context.site, options(context.site)
    exact = {} if chosen.patch is None else {"kubernetesVersion": f"v{chosen}"}
    names = [word for h in control_hosts(site) for word in (h.name, str(h.address))]
    return {
        "apiVersion": api,
        "kind": "ClusterConfiguration",
        **exact,
        "clusterName": site.name,
        "controlPlaneEndpoint": endpoint(site),
        "networking": {
            "dnsDomain": "cluster.local",
            "podSubnet": str(given.pod_network),
            "serviceSubnet": str(given.service_network),
        },
        "apiServer": {
            "certSANs": names + ([str(given.address)] if given.address else []),
            "extraArgs": chosen.arguments(
                {
                    "audit-log-path": f"{AUDIT_FOLDER}/audit.log",
                    "audit-log-maxage": "30",
                    "audit-log-maxbackup": "10",
                    "audit-log-maxsize": "100",
                    "audit-policy-file": f"{SETTINGS}/audit-policy.yml",
                    # Each change of an object leaves its former content in etcd until then.
                    "etcd-compaction-interval": "1m0s",
                    "encryption-provider-config": f"{SETTINGS}/encryption.yml",
                    "profiling": "false",
                    # Else a token of a pod that was stolen is good for a year, not for an hour.
                    "service-account-extend-token-expiration": "false",
                    "tls-cipher-suites": ",".join(CIPHERS),
                    "tls-min-version": "VersionTLS12",
                    # Policies that change pods: they raise the requests of small ones.
                    **gates(chosen.minor),
                    **(
                        {"authentication-config": f"{SETTINGS}/authentication.yml"}
                        if given.oidc
                        else {}
                    ),
                }
            ),
            "extraVolumes": [
                _volume("appliance", SETTINGS, read_only=True),
                _volume("audit", AUDIT_FOLDER, read_only=False),
            ],
        },
        "controllerManager": {"extraArgs": chosen.arguments({"profiling": "false"})},
        "scheduler": {"extraArgs": chosen.arguments({"profiling": "false"})},
        "etcd": {"local": {"dataDir": "/var/lib/etcd", **_etcd(chosen, container)}},
    }


ETCD_BYTES = 8 << 30
"""Maximum size of the database that etcd's documentation suggests (etcd 3.6, system limits); the default is 2 GiB."""


def _etcd(chosen: Release, container: bool) -> Document:
    """Return etcd's arguments. Container hosts share one machine's processors and disk, so their timeouts are five times the defaults."""
    times = {"heartbeat-interval": "500", "election-timeout": "5000"} if container else {}
    return {"extraArgs": chosen.arguments({"quota-backend-bytes": str(ETCD_BYTES), **times})}


def _volume(name: str, path: str, *, read_only: bool) -> Document:
    return {
        "name": name,
        "hostPath": path,
        "mountPath": path,
        "readOnly": read_only,
        "pathType": "DirectoryOrCreate",
    }


def _proxy(site: Site, container: bool) -> Document:
    found: Document = {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "iptables",
        "clusterCIDR": str(options(site).pod_network),
    }
    if container:
        # The table of connections is the machine's, whose size no container may set.
        found["conntrack"] = {"maxPerCore": 0}
    return found


def takes_subnet(image: str) -> bool:
    """Return whether this kube-vip reads vip_subnet; a tag without a release counts as new."""
    found = re.search(r":v?(\d+)\.(\d+)[^/]*$", image.partition("@")[0])
    return found is None or tuple(map(int, found.groups())) >= SUBNET_SINCE


def _routes(context: RoleContext) -> list[dict[str, str]]:
    """Return routes to all members except the host itself."""
    return [route for name, route in context.once(_all_routes).items() if name != context.host.name]


def _all_routes(context: RoleContext) -> dict[str, dict[str, str]]:
    site = context.site
    return {
        other.name: {"subnet": str(pod_subnet(site, other)), "via": str(other.address)}
        for other in members(site)
    }


def _interface(context: RoleContext) -> str:
    """Return the interface with the host's management address; "" before the first facts."""
    facts = context.own
    wanted = f"{context.host.address}/"
    found = (
        i.name
        for i in (facts.interfaces if facts else ())
        if any(address.startswith(wanted) for address in i.addresses)
    )
    return next(found, "")


def _encryption_key(context: RoleContext) -> str:
    key = context.secrets.get(SECRET)
    if key is None:
        raise ConfigError(
            f"secrets.{SECRET} is not given",
            f"add {SECRET}: {{file: secrets/{SECRET}}}; make it with: openssl rand -base64 32",
        )
    if not re.fullmatch(r"[A-Za-z0-9+/]{43}=", key):
        raise ConfigError(
            f"secrets.{SECRET} is not 32 bytes in base64", "make one with: openssl rand -base64 32"
        )
    return key
