"""Variables of role ``fabric``."""

from appliance.models.facts import HostFacts
from appliance.models.site import Role, Site
from appliance.stages.context import RoleContext, Variables
from appliance.stages.fabric.cabling import INFINIBAND, natural
from appliance.stages.fabric.facts import Port
from appliance.stages.fabric.site import FULL_MEMBER

ETHERNET = "Ethernet"
MODULES = {"InfiniBand": ("ib_umad", "ib_ipoib", "rdma_ucm"), "Ethernet": ("rdma_ucm",), "none": ()}
TOP_PRIORITY = 14  # 15 stays free for a manager that must win for a while (a replacement, a test)


def variables(context: RoleContext) -> Variables:
    """Return the variables: diagnostics everywhere, a subnet manager on control hosts and standbys if the site uses opensm."""
    managed = _runs_opensm(context)
    return {
        "fabric_link_layer": _link_layer(context),
        "fabric_opensm": managed,
        "fabric_opensm_priority": _priority(context),
        "fabric_opensm_guids": _first_port(context) if managed else [],
        "fabric_partitions": _partitions(context) if managed else [],
        "fabric_ipoib": _ipoib(context),
        "fabric_roce": _roce(context),
        "fabric_kernel_modules": list(_modules(context)),
    } | _driver(context)


def _driver(context: RoleContext) -> Variables:
    """Return the driver's variables. A container has its machine's driver, unless fabric and driver are simulated."""
    site, contained = context.site, _contained(context)
    source = site.repositories.doca
    if site.fabric.driver == "inbox" or source is None or (contained and not site.simulated):
        return {"fabric_driver": "inbox", "fabric_container": contained}
    return {
        "fabric_driver": "doca",
        "fabric_doca_release": context.profile.software.doca_ofed or "",
        "fabric_doca_mirror": source.mirror.rstrip("/"),
        "fabric_doca_key": source.key,
        "fabric_doca_fingerprint": source.fingerprint,
        "fabric_container": contained,
    }


def managers(site: Site) -> tuple[str, ...]:
    """Return the hosts that run opensm, the master first."""
    if site.fabric.subnet_manager != "opensm":
        return ()
    return (*(host.name for host in site.with_role(Role.CONTROL)), *site.fabric.standby)


def _runs_opensm(context: RoleContext) -> bool:
    infiniband = any(p.hardware.fabric.link_layer == INFINIBAND for p in context.profiles)
    return infiniband and context.host.name in managers(context.site)


def _link_layer(context: RoleContext) -> str:
    """Return the link layer of the host's class; a host with a subnet manager has an InfiniBand port, whatever its class."""
    own = context.profile.hardware.fabric.link_layer
    return INFINIBAND if _runs_opensm(context) else own


def _priority(context: RoleContext) -> int:
    """Return the priority: the first host is master, the others are standby in this order (0 to 15, IB specification)."""
    names = managers(context.site)
    if context.host.name not in names:
        return 0
    return max(0, TOP_PRIORITY - names.index(context.host.name))


def _first_port(context: RoleContext) -> list[str]:
    """Return the GUID of the port for the subnet manager, which waits for it at boot; empty before the host's first facts: then it uses any port."""
    ports = _of_infiniband(context.own)
    return [ports[0].guid] if ports else []


def _partitions(context: RoleContext) -> list[Variables]:
    """Return partitions with the known ports of each member: a host that was never reached has none."""
    return [
        {
            "name": partition.name,
            "pkey": partition.pkey,
            "full": partition.membership == "full",
            "guids": [
                port.guid for name in partition.hosts for port in _infiniband_ports(context, name)
            ],
        }
        for partition in context.site.fabric.partitions
    ]


def _infiniband_ports(context: RoleContext, host: str) -> list[Port]:
    return _of_infiniband(context.facts.get(host))


def _of_infiniband(facts: HostFacts | None) -> list[Port]:
    found = [p for p in facts.ports if p.link_layer == INFINIBAND and p.guid] if facts else []
    return sorted(found, key=lambda port: (natural(port.device), port.port))


def _ipoib(context: RoleContext) -> Variables:
    """Return settings of IPoIB; empty if the host has no address for it, or is a container without an interface of its own."""
    wanted = context.site.fabric.ipoib
    if wanted is None or wanted.network not in context.host.addresses or _contained(context):
        return {}
    network = context.site.networks[wanted.network]
    keys = {p.name: p.pkey for p in context.site.fabric.partitions}
    return {
        "device": wanted.device,
        "mode": wanted.mode,
        "mtu": network.mtu,
        "address": f"{context.host.addresses[wanted.network]}/{network.cidr.prefixlen}",
        "pkey": f"{keys[wanted.partition] | FULL_MEMBER:#06x}" if wanted.partition else "",
    }


def _roce(context: RoleContext) -> Variables:
    """Return settings of RoCE; empty without GPUs, and in a container, whose ports belong to its machine."""
    wanted = context.site.fabric.roce
    if wanted is None or Role.GPU not in context.host.roles or _contained(context):
        return {}
    if context.site.has_classes and context.profile.hardware.fabric.link_layer != ETHERNET:
        return {}
    return {
        "priority": wanted.priority,
        "dscp": wanted.dscp,
        "traffic_class": wanted.traffic_class,
        "ecn": wanted.ecn,
        "mtu": wanted.mtu or 0,
        "devices": list(wanted.devices),
    }


def _modules(context: RoleContext) -> tuple[str, ...]:
    """Return kernel modules; a container loads none."""
    if _contained(context):
        return ()
    return MODULES[_link_layer(context)]


def _contained(context: RoleContext) -> bool:
    facts = context.own
    return bool(facts and facts.os.container)
