"""Checks standby managers, partitions and IP over InfiniBand."""

from collections.abc import Iterable

from appliance.checks.check import Check, HostCheck, View, failed, not_assessed, passed
from appliance.models.facts import HostFacts
from appliance.models.facts_host import Interface
from appliance.models.result import Judgement, place
from appliance.models.site import Host, Role
from appliance.stages.fabric import ids
from appliance.stages.fabric.checks.ports import is_active, is_simulated, ports_of_kind
from appliance.stages.fabric.checks.subnet import infiniband
from appliance.stages.fabric.facts import Port
from appliance.stages.fabric.site import FULL_MEMBER, FabricPartition
from appliance.text import plural

MEMBERS = frozenset({Role.CONTROL, Role.GPU})
OPENSM = "opensm.service"


def judge_standby(view: View, host: Host, facts: HostFacts) -> Iterable[Judgement]:
    """Pass if the standby subnet manager runs."""
    if not infiniband(view) or host.name not in view.site.fabric.standby:
        return []
    common = {"limit": "active", "simulated": is_simulated(facts)}
    target = place(host.name, OPENSM)
    unit = facts.units.get(OPENSM)
    if unit is None or unit.active == "unknown":
        why = facts.gap("units", f"the state of {OPENSM} was not read")
        return [not_assessed(target, why, **common)]
    if unit.active == "active":
        return [passed(target, unit.active, **common)]
    return [
        failed(
            target,
            f"opensm is {unit.active}: no standby takes over when the master fails",
            f"on {host.name}: systemctl restart opensm, then read /var/log/opensm.*log",
            value=unit.active,
            **common,
        )
    ]


def judge_partitions(view: View, host: Host, facts: HostFacts) -> Iterable[Judgement]:
    """Pass if every active port of a member has the partition's key."""
    wanted = [p for p in view.site.fabric.partitions if host.name in p.hosts]
    if not wanted or not infiniband(view):
        return []
    common = {"limit_source": "site.fabric.partitions", "simulated": is_simulated(facts)}
    if is_simulated(facts):
        cause = "the simulated ports do not report the keys of the subnet manager"
        return [not_assessed(host.name, cause, required=False, **common)]
    ports = [port for port in ports_of_kind(view, facts) if is_active(port)]
    if not ports:
        cause = "no port is active, and only active ports have keys"
        return [not_assessed(host.name, cause, **common)]
    unread = [port.device for port in ports if port.pkeys is None]
    if unread:
        cause = f"the partition table of {', '.join(unread)} could not be read"
        return [not_assessed(host.name, cause, **common)]
    lacking = [(port, p) for port in ports for p in wanted if _key(p) not in (port.pkeys or ())]
    if lacking:
        return [_outside(host, port, partition, common) for port, partition in lacking]
    names = ", ".join(p.name for p in wanted)
    return [passed(host.name, names, evidence=plural(len(ports), "port"), **common)]


def judge_ipoib(view: View, host: Host, facts: HostFacts) -> Iterable[Judgement]:
    """Pass if the host has its address in the fabric's network, with the network's MTU."""
    wanted = view.site.fabric.ipoib
    if wanted is None or wanted.network not in host.addresses:
        return []
    network = view.site.networks[wanted.network]
    address = f"{host.addresses[wanted.network]}/{network.cidr.prefixlen}"
    common = {
        "limit": address,
        "limit_source": "site.fabric.ipoib",
        "simulated": is_simulated(facts),
    }
    if facts.os.container:
        cause = "a container has no IPoIB interface of its own"
        return [not_assessed(host.name, cause, required=False, **common)]
    own = next((i for i in facts.interfaces if address in i.addresses), None)
    if own is None and not facts.interfaces:
        why = facts.gap("network", "the host's interfaces were not read")
        return [not_assessed(host.name, why, **common)]
    if own is None:
        return [
            failed(
                host.name,
                f"no interface has {address}",
                "systemctl status appliance-ipoib on the host shows why; then restart it",
                **common,
            )
        ]
    return [_interface(host, own, network.mtu, common)]


def _key(partition: FabricPartition) -> int:
    return partition.pkey | (FULL_MEMBER if partition.membership == "full" else 0)


def _outside(
    host: Host, port: Port, partition: FabricPartition, common: dict[str, object]
) -> Judgement:
    found = ", ".join(f"{key:#06x}" for key in port.pkeys or ()) or "none"
    return failed(
        place(host.name, port.device),
        f"the port is no {partition.membership} member of {partition.name} "
        f"({_key(partition):#06x}); it has {found}",
        "appliance deploy --stage fabric writes partitions.conf again; with several subnet managers, "
        "check that the master is one of this site",
        value=found,
        limit=f"{_key(partition):#06x}",
        **common,
    )


def _interface(host: Host, own: Interface, mtu: int, common: dict[str, object]) -> Judgement:
    if own.mtu == mtu and own.state.lower() in {"up", "unknown"}:
        return passed(host.name, own.name, evidence=f"MTU {own.mtu}", **common)
    wrong = f"its MTU is {own.mtu}, not {mtu}" if own.mtu != mtu else f"it is {own.state}"
    return failed(
        place(host.name, own.name),
        f"{own.name} has the address, but {wrong}",
        "systemctl restart appliance-ipoib on the host; a datagram MTU above 2044 requires a fabric MTU of 4096",
        value=own.mtu,
        **common,
    )


CHECKS: tuple[Check, ...] = (
    HostCheck(
        id=ids.STANDBY,
        title="A second subnet manager stands by",
        roles=MEMBERS,
        judge=judge_standby,
        explain="On the hosts of fabric.standby, the subnet manager runs with a lower priority. If no standby takes over after the master is lost, "
        "changes of ports have no effect.",
        limit="active, on the hosts of fabric.standby",
    ),
    HostCheck(
        id=ids.PARTITIONS,
        title="Ports are in their partitions",
        roles=MEMBERS,
        judge=judge_partitions,
        explain="The partition table of each active port. A port without the key cannot communicate with the partition's members. Usual cause: an "
        "unmanaged subnet manager has become master.",
        limit="fabric.partitions of the site",
    ),
    HostCheck(
        id=ids.IPOIB,
        title="IP over InfiniBand is up",
        roles=MEMBERS,
        judge=judge_ipoib,
        explain="The host's address in the fabric's network, and the MTU and state of its interface. An MTU that differs between hosts loses only "
        "large packets.",
        limit="hosts[].addresses and the network's mtu",
        by_container=True,
    ),
)
