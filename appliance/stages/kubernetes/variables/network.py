"""The pod network's charts, which the first control host installs before other parts of the cluster can run."""

from appliance.models.site import Role
from appliance.stages.context import RoleContext, Variables
from appliance.stages.kubernetes.variables.releases import options

CALICO, CILIUM = "v3.32.1", "1.20.1"
"""Newest known releases (2026-11)."""
CALICO_CHARTS = "https://docs.tigera.io/calico/charts"
CILIUM_CHARTS = "https://helm.cilium.io"
OPERATOR = "tigera-operator"


def releases(context: RoleContext) -> list[Variables]:
    """Return releases in order of installation; none for a network without a chart."""
    match options(context.site).network:
        case "calico":
            return _calico(context)
        case "cilium":
            return _cilium(context)
    return []


def _calico(context: RoleContext) -> list[Variables]:
    """Return Calico's charts. Since 3.32, the definitions have a chart of their own, because Helm never updates a folder crds."""
    version = options(context.site).network_version or CALICO
    common = {"namespace": OPERATOR, "repository": CALICO_CHARTS, "version": version}
    definitions = {"name": "calico-crds", "chart": "crd.projectcalico.org.v1", "values": {}}
    return [
        {**common, **definitions},
        {**common, "name": "calico", "chart": OPERATOR, "values": _installation(context)},
    ]


def _installation(context: RoleContext) -> Variables:
    """Return Calico's Installation. Pods use the interface of network management, never InfiniBand."""
    given, management = options(context.site), context.site.networks["management"]
    pool = {"cidr": str(given.pod_network), "encapsulation": "VXLAN", "natOutgoing": "Enabled"}
    return {
        "installation": {
            "enabled": True,
            "calicoNetwork": {
                "bgp": "Disabled",
                "ipPools": [pool],
                "nodeAddressAutodetectionV4": {"cidrs": [str(management.cidr)]},
            },
        },
        # What nobody here uses takes memory on every host: the second API, and the pictures of flows.
        "apiServer": {"enabled": False},
        "goldmane": {"enabled": False},
        "whisker": {"enabled": False},
    }


def _cilium(context: RoleContext) -> list[Variables]:
    given = options(context.site)
    members = [h for h in context.site.hosts if {Role.CONTROL, Role.GPU}.intersection(h.roles)]
    values: Variables = {
        "ipam": {
            "mode": "cluster-pool",
            "operator": {"clusterPoolIPv4PodCIDRList": [str(given.pod_network)]},
        },
        "kubeProxyReplacement": "false",
        "nodePort": {"addresses": [str(context.site.networks["management"].cidr)]},
        # Two of them never run on one host, and Helm waits for all.
        "operator": {"replicas": min(2, len(members))},
        "routingMode": "tunnel",
    }
    return [
        {
            "name": "cilium",
            "namespace": "kube-system",
            "chart": "cilium",
            "repository": CILIUM_CHARTS,
            "version": given.network_version or CILIUM,
            "values": values,
        }
    ]
