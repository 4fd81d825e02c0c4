"""Where each adapter's cable ends, as discovery found it."""

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
    """A switch's port; port 0 means whichever."""

    switch: str
    port: int = 0

    def __str__(self) -> str:
        return f"port {self.port} of {self.switch}" if self.port else self.switch


Cables = Mapping[Plug, Socket]
Known = Mapping[str, HostFacts | None]
"""GPU hosts in the site's order, with what they last said of themselves."""


def ports_of(known: Known) -> dict[Plug, Port]:
    """The InfiniBand ports these hosts report."""
    return {
        Plug(host, port.device, port.port): port
        for host, facts in known.items()
        if facts
        for port in facts.ports
        if port.link_layer == INFINIBAND
    }


def found_cables(known: Known, topology: Topology) -> dict[Plug, Socket]:
    """The cables of these hosts that discovery met, by adapter."""
    switches = {node.description for node in topology.switches}
    named = _named(known, topology)
    is_told = all(node.description in named for node in topology.hcas)
    by_guid = {} if is_told else _by_guid(known, topology)
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
    """Into which switch's port each of one host's ports leads, by device and port; linear in the fabric's links."""
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
    """Host and device by the node's description, "gpu-1 mlx5_0" where rdma-ndd describes adapters.

    openibd of NVIDIA's driver writes "gpu-1 HCA-1", which names no device.
    """
    names = _hosts_by_name(known)
    named: dict[str, tuple[str, str]] = {}
    for node in topology.hcas:
        host, _, device = node.description.partition(" ")
        if host in names and device and " " not in device and not device.startswith("HCA-"):
            named[node.description] = names[host], device
    return named


def _hosts_by_name(known: Known) -> dict[str, str]:
    """A host's name in the site is its own, whatever another calls itself; what several call themselves is none of them."""
    claims: dict[str, list[str]] = {}
    for host, facts in known.items():
        if facts:
            claims.setdefault(facts.os.hostname, []).append(host)
    said = {name: hosts[0] for name, hosts in claims.items() if len(hosts) == 1}
    return said | {host: host for host in known}


def _by_guid(known: Known, topology: Topology) -> dict[tuple[str, int], Plug]:
    """By node and port, where descriptions say nothing.

    An adapter's GUID is its port's, or with several ports (and in ibsim) less by the port's number; the way
    that fits more hosts is the fabric's, whatever number of GUIDs one of them has.
    """
    nodes = {number(node.guid): node.description for node in topology.hcas}
    ways = [_claimed(known, less) for less in (0, 1)]
    best = max(ways, key=lambda way: len({way[guid].host for guid in way.keys() & nodes.keys()}))
    return {(nodes[guid], plug.port): plug for guid, plug in best.items() if guid in nodes}


def _claimed(known: Known, less: int) -> dict[int, Plug]:
    """By the GUID of an adapter its port; one that several hosts claim is none of theirs."""
    made: dict[int, Plug] = {}
    twice: set[int] = set()
    for plug, port in ports_of(known).items():
        guid = number(port.guid) - less * plug.port
        if made.setdefault(guid, plug).host != plug.host:
            twice.add(guid)
        else:
            made[guid] = plug
    return {guid: plug for guid, plug in made.items() if guid not in twice}


def number(guid: str) -> int:
    """A GUID as the kernel (0c42:a1...) or a tool (0x0c42a1...) writes it; 0 for none."""
    digits = guid.lower().removeprefix("0x").replace(":", "")
    return int(digits, 16) if digits and set(digits) <= set("0123456789abcdef") else 0
