"""Rules over networks and where hosts stand in them."""

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network
from itertools import combinations

from appliance.config.finding import Finding, KeyPath
from appliance.config.rules.base import Case, nearest
from appliance.config.rules.reserved import is_for_hosts
from appliance.text import plural

MANAGEMENT = "management"
BMC = "bmc"


def management(case: Case) -> Iterator[Finding]:
    """Every host's ``address`` is in this network."""
    if MANAGEMENT not in case.site.networks and case.checked.listed("networks"):
        remedy = nearest(MANAGEMENT, list(case.site.networks), "networks here")
        message = f'no network is called "{MANAGEMENT}", in which hosts[].address lies'
        yield case.problem(("networks",), message, remedy)


def usable(case: Case) -> Iterator[Finding]:
    """Networks hosts can live in."""
    for name, network in case.site.networks.items():
        cidr = network.cidr
        if not is_for_hosts(cidr):
            path: KeyPath = ("networks", name, "cidr")
            yield case.problem(
                path, f"{cidr} is no network for hosts", "take a private one, as 10.0.0.0/24"
            )


def unicast(case: Case) -> Iterator[Finding]:
    """Addresses outside of the site's networks are such as a machine can have."""
    cidrs = [network.cidr for network in case.site.networks.values()]
    for path, address in outside(case):
        ends = [c for c in cidrs if c.prefixlen < 31 and address in (c[0], c[-1])]
        if not is_for_hosts(address) or ends:
            message = f"{address} is no address of a machine"
            yield case.problem(path, message, "take the one the machine has, as 10.0.0.2")


def outside(case: Case) -> Iterator[tuple[KeyPath, IPv4Address]]:
    """Addresses that need not lie in a network of the site."""
    for name, network in case.site.networks.items():
        for key, given in (("dns", network.dns), ("dhcp", network.dhcp)):
            for i, address in enumerate(given):
                yield ("networks", name, key, i), address
    for i, host in enumerate(case.site.hosts):
        if host.bmc:
            yield ("hosts", i, "bmc", "address"), host.bmc.address
    if case.site.provision and case.site.provision.address:
        yield ("provision", "address"), case.site.provision.address


def overlaps(case: Case) -> Iterator[Finding]:
    """An address is in one network only."""
    for (first, a), (second, b) in combinations(case.site.networks.items(), 2):
        if a.cidr.overlaps(b.cidr):
            message = f"{b.cidr} overlaps {a.cidr} of {case.also(('networks', first, 'cidr'))}"
            yield case.problem(
                ("networks", second, "cidr"), message, "give each network a range of its own"
            )


def gateways(case: Case) -> Iterator[Finding]:
    """A gateway is a host of its network."""
    for name, network in case.site.networks.items():
        if network.gateway:
            path: KeyPath = ("networks", name, "gateway")
            yield from placed(case, path, network.gateway, name, network.cidr)


def dhcp_servers(case: Case) -> Iterator[Finding]:
    """Machines are installed, and ask, in one network alone."""
    for name, network in case.site.networks.items():
        if network.dhcp and name != MANAGEMENT:
            message = f"nobody asks for DHCP servers in {name}"
            yield case.problem(
                ("networks", name, "dhcp"),
                message,
                f"take this out; machines are installed in {MANAGEMENT}",
            )


def members(case: Case) -> Iterator[Finding]:
    """Each address lies in the network it is given for."""
    for i, host in enumerate(case.site.hosts):
        given: dict[KeyPath, tuple[str, IPv4Address]] = {}
        given["hosts", i, "address"] = (MANAGEMENT, host.address)
        for name, address in host.addresses.items():
            given["hosts", i, "addresses", name] = (name, address)
        if host.bmc and BMC in case.site.networks:
            given["hosts", i, "bmc", "address"] = (BMC, host.bmc.address)
        for path, (name, address) in given.items():
            if name in case.site.networks:
                yield from placed(case, path, address, name, case.site.networks[name].cidr)


def known(case: Case) -> Iterator[Finding]:
    """Addresses are given for networks that exist, and management's is the host's ``address``."""
    for i, host in enumerate(case.site.hosts):
        for name in host.addresses:
            path: KeyPath = ("hosts", i, "addresses", name)
            if name == MANAGEMENT:
                yield case.problem(path, "is hosts[].address already", "take this line out")
            elif name not in case.site.networks and case.checked.whole("networks", name):
                others = [n for n in case.site.networks if n != MANAGEMENT]
                yield case.problem(
                    path, f'no network is called "{name}"', nearest(name, others, "networks")
                )


def room(case: Case) -> Iterator[Finding]:
    """A network has an address for each of its hosts."""
    for name, network in case.site.networks.items():
        wanted = sum(name == MANAGEMENT or name in host.addresses for host in case.site.hosts)
        wanted += network.gateway is not None
        there = max(0, network.cidr.num_addresses - 2)
        if wanted > there:
            prefix = 32 - (wanted + 1).bit_length()
            message = f"{network.cidr} has {plural(there, 'address', 'addresses')} for hosts, {wanted} are needed"
            yield case.problem(("networks", name, "cidr"), message, f"take a /{prefix} or larger")


def placed(
    case: Case, path: KeyPath, address: IPv4Address, name: str, cidr: IPv4Network
) -> Iterator[Finding]:
    """An address of a machine in that network, which is called ``name``."""
    if address not in cidr:
        place = f"{name} ({cidr}, line {case.line(('networks', name, 'cidr'))})"
        # A /31 and a /32 have no addresses to spare for network and broadcast (RFC 3021).
        spare = 0 if cidr.prefixlen >= 31 else 1
        first, last = cidr[spare], cidr[-1 - spare]
        yield case.problem(path, f"{address} is outside {place}", f"take one of {first} to {last}")
    elif cidr.prefixlen < 31 and address in (cidr.network_address, cidr.broadcast_address):
        which = "network" if address == cidr.network_address else "broadcast"
        yield case.problem(
            path, f"{address} is the {which} address of {name} ({cidr})", "take another"
        )
