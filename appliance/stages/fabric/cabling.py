"""The end of each adapter's cable, as found by discovery."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from appliance.models.facts import HostFacts
from appliance.models.site import Host
from appliance.stages.fabric.facts import Link, Port, Topology

INFINIBAND = "InfiniBand"


class Plug(NamedTuple):
    """An adapter's port. Single-port adapters are port 1."""

    host: str
    device: str
    port: int = 1

    def __str__(self) -> str:
        return f"{self.device}{f' port {self.port}' if self.port > 1 else ''} of {self.host}"


class Socket(NamedTuple):
    """A switch's port; port 0 means any port."""

    switch: str
    port: int = 0

    def __str__(self) -> str:
        return f"port {self.port} of {self.switch}" if self.port else self.switch


Cables = Mapping[Plug, Socket]
Known = Mapping[str, HostFacts | None]
"""GPU hosts in the site's order, with their last facts."""


def ports_of(known: Known) -> dict[Plug, Port]:
    """Return the InfiniBand ports that these hosts report."""
    return {
        Plug(host, port.device, port.port): port
        for host, facts in known.items()
        if facts
        for port in facts.ports
        if port.link_layer == INFINIBAND
    }


def found_cables(
    known: Known, topology: Topology, accepted: Known | None = None
) -> dict[Plug, Socket]:
    """Return the discovered cables of these hosts by adapter. ``accepted``: accepted facts, which decide if two hosts claim one."""
    switches = {node.description for node in topology.switches}
    named = _named(known, topology)
    is_told = all(node.description in named for node in topology.hcas)
    by_guid = {} if is_told else _by_guid(known, topology, accepted or {})
    cables: dict[Plug, Socket] = {}
    for link in topology.links:
        if (link.peer in switches) is (link.node in switches):
            continue
        end, port, peer, peer_port = link.node, link.port, link.peer, link.peer_port
        if end in switches:
            end, port, peer, peer_port = peer, peer_port, end, port
        name = named.get(end)
        plug = Plug(*name, port) if name else by_guid.get((end, port))
        if plug:
            cables[plug] = Socket(peer, peer_port)
    return cables


def ends_of(topology: Topology, host: Host, facts: HostFacts) -> dict[tuple[str, int], Socket]:
    """Return the switch port of each port of one host, by device and port; linear in the fabric's links."""
    names = {host.name, facts.os.hostname}
    devices = {f"{name} {port.device}": port.device for name in names for port in facts.ports}
    guids = {number(p.guid) - less: p.device for p in facts.ports for less in (0, p.port) if p.guid}
    own = {
        node.description: devices.get(node.description) or guids.get(number(node.guid))
        for node in topology.hcas
    }
    return {
        (device, port): Socket(peer, peer_port)
        for end, port, peer, peer_port in _directions(topology.links)
        if (device := own.get(end))
    }


def natural(text: str) -> list[tuple[int, str]]:
    """Sorts mlx5_10 after mlx5_9."""
    parts = filter(None, re.split("([0-9]{1,18})", text))
    return [(int(p), "") if p.isascii() and p.isdigit() else (-1, p) for p in parts]


def _directions(links: Iterable[Link]) -> Iterator[tuple[str, int, str, int]]:
    for link in links:
        yield link.node, link.port, link.peer, link.peer_port
        yield link.peer, link.peer_port, link.node, link.port


def _named(known: Known, topology: Topology) -> dict[str, tuple[str, str]]:
    """Return host and device by the node's description, such as "gpu-1 mlx5_0" from rdma-ndd.

    openibd of NVIDIA's driver writes "gpu-1 HCA-1", without the device. A host's own description does not assign an adapter
    whose GUID belongs to another host.
    """
    names, owners = _hosts_by_name(known), _owners(known)
    named: dict[str, tuple[str, str]] = {}
    for node in topology.hcas:
        said, _, device = node.description.partition(" ")
        host = names.get(said)
        if not host or not device or " " in device or device.startswith("HCA-"):
            continue
        if said in known or owners.get(number(node.guid), host) == host:
            named[node.description] = host, device
    return named


def _owners(known: Known) -> dict[int, str]:
    """Return the only host that reports an adapter's GUID."""
    hosts: dict[int, set[str]] = {}
    for plug, port in ports_of(known).items():
        for less in {0, plug.port}:
            hosts.setdefault(number(port.guid) - less, set()).add(plug.host)
    return {guid: next(iter(names)) for guid, names in hosts.items() if len(names) == 1}


def _hosts_by_name(known: Known) -> dict[str, str]:
    """Return hosts by name: a name in the site belongs to that host, a name that several hosts report to none."""
    claims: dict[str, list[str]] = {}
    for host, facts in known.items():
        if facts:
            claims.setdefault(facts.os.hostname, []).append(host)
    said = {name: hosts[0] for name, hosts in claims.items() if len(hosts) == 1}
    return said | {host: host for host in known}


def _by_guid(known: Known, topology: Topology, accepted: Known) -> dict[tuple[str, int], Plug]:
    """Return hosts by GUID of node and port, for nodes without usable descriptions.

    An adapter's GUID is its port's GUID, or with several ports (and in ibsim) smaller by the port's number; the way
    that fits more hosts is the fabric's, whatever number of GUIDs one of them has.
    """
    nodes = {number(node.guid): node.description for node in topology.hcas}
    ways = [_claimed(known, accepted, less) for less in (0, 1)]
    best = max(ways, key=lambda way: len({way[guid].host for guid in way.keys() & nodes.keys()}))
    return {(nodes[guid], plug.port): plug for guid, plug in best.items() if guid in nodes}


def _claimed(known: Known, accepted: Known, less: int) -> dict[int, Plug]:
    """Return ports by GUID; if several hosts claim one, the host from which it was accepted, else none."""
    claims: dict[int, dict[str, Plug]] = {}
    for plug, port in ports_of(known).items():
        claims.setdefault(number(port.guid) - less * plug.port, {})[plug.host] = plug
    if all(len(plugs) == 1 for plugs in claims.values()):
        return {guid: plug for guid, plugs in claims.items() for plug in plugs.values()}
    owners: dict[int, set[str]] = {}
    for plug, port in ports_of(accepted).items():
        owners.setdefault(number(port.guid) - less * plug.port, set()).add(plug.host)
    made: dict[int, Plug] = {}
    for guid, plugs in claims.items():
        hosts = plugs.keys() if len(plugs) == 1 else plugs.keys() & owners.get(guid, set())
        if len(hosts) == 1:
            made[guid] = plugs[next(iter(hosts))]
    return made


def number(guid: str) -> int:
    """Return a GUID in the kernel's form (0c42:a1...) or a tool's (0x0c42a1...) as a number; 0 for none."""
    digits = guid.lower().removeprefix("0x").replace(":", "")
    return int(digits, 16) if digits and set(digits) <= set("0123456789abcdef") else 0
