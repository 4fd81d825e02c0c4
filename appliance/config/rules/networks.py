"""Rules for networks and the addresses of hosts."""

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network
from itertools import combinations

from appliance.config.finding import Finding, KeyPath
from appliance.config.rules.base import Case, nearest
from appliance.config.rules.reserved import is_for_hosts
from appliance.models.site import BMC_NETWORK
from appliance.text import plural

MANAGEMENT = "management"


def management(case: Case) -> Iterator[Finding]:
    """The network of every host's ``address``."""
    if MANAGEMENT not in case.site.networks and case.checked.listed("networks"):
        remedy = nearest(MANAGEMENT, list(case.site.networks), "networks here")
        message = f'network "{MANAGEMENT}" is missing; hosts[].address must be in it'
        yield case.problem(("networks",), message, remedy)


def usable(case: Case) -> Iterator[Finding]:
    """Networks can contain hosts."""
    for name, network in case.site.networks.items():
        cidr = network.cidr
        if not is_for_hosts(cidr):
            path: KeyPath = ("networks", name, "cidr")
            yield case.problem(
                path, f"{cidr} cannot contain hosts", "use a private network, such as 10.0.0.0/24"
            )


def unicast(case: Case) -> Iterator[Finding]:
    """Addresses outside of the site's networks are valid for a machine."""
    cidrs = [network.cidr for network in case.site.networks.values()]
    for path, address in outside(case):
        ends = [c for c in cidrs if c.prefixlen < 31 and address in (c[0], c[-1])]
        if not is_for_hosts(address) or ends:
            message = f"{address} is not a valid address of a machine"
            yield case.problem(path, message, "use the machine's address, such as 10.0.0.2")


def outside(case: Case) -> Iterator[tuple[KeyPath, IPv4Address]]:
    """Addresses that may be outside the site's networks."""
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
    """Networks do not overlap."""
    for (first, a), (second, b) in combinations(case.site.networks.items(), 2):
        if a.cidr.overlaps(b.cidr):
            message = f"{b.cidr} overlaps {a.cidr} of {case.also(('networks', first, 'cidr'))}"
            yield case.problem(
                ("networks", second, "cidr"), message, "give each network its own range"
            )


def gateways(case: Case) -> Iterator[Finding]:
    """A gateway is an address of its network."""
    for name, network in case.site.networks.items():
        if network.gateway:
            path: KeyPath = ("networks", name, "gateway")
            yield from placed(case, path, network.gateway, name, network.cidr)


def dhcp_servers(case: Case) -> Iterator[Finding]:
    """Machines are installed, and use DHCP, in one network only."""
    for name, network in case.site.networks.items():
        if network.dhcp and name != MANAGEMENT:
            message = f"DHCP servers are not used in {name}"
            yield case.problem(
                ("networks", name, "dhcp"),
                message,
                f"remove this line; machines are installed in {MANAGEMENT}",
            )


def members(case: Case) -> Iterator[Finding]:
    """Each address is in its network."""
    for i, host in enumerate(case.site.hosts):
        given: dict[KeyPath, tuple[str, IPv4Address]] = {}
        given["hosts", i, "address"] = (MANAGEMENT, host.address)
        for name, address in host.addresses.items():
            given["hosts", i, "addresses", name] = (name, address)
        if host.bmc and BMC_NETWORK in case.site.networks:
            given["hosts", i, "bmc", "address"] = (BMC_NETWORK, host.bmc.address)
        for path, (name, address) in given.items():
            if name in case.site.networks:
                yield from placed(case, path, address, name, case.site.networks[name].cidr)


def known(case: Case) -> Iterator[Finding]:
    """Addresses are given for existing networks; that of management is the host's ``address``."""
    for i, host in enumerate(case.site.hosts):
        for name in host.addresses:
            path: KeyPath = ("hosts", i, "addresses", name)
            if name == MANAGEMENT:
                yield case.problem(path, "is already given by hosts[].address", "remove this line")
            elif name not in case.site.networks and case.checked.whole("networks", name):
                others = [n for n in case.site.networks if n != MANAGEMENT]
                yield case.problem(
                    path, f'there is no network "{name}"', nearest(name, others, "networks")
                )


def room(case: Case) -> Iterator[Finding]:
    """A network has enough addresses for its hosts."""
    for name, network in case.site.networks.items():
        wanted = sum(name == MANAGEMENT or name in host.addresses for host in case.site.hosts)
        wanted += network.gateway is not None
        there = max(0, network.cidr.num_addresses - 2)
        if wanted > there:
            prefix = 32 - (wanted + 1).bit_length()
            message = f"{network.cidr} has {plural(there, 'address', 'addresses')} for hosts, but {wanted} are needed"
            yield case.problem(("networks", name, "cidr"), message, f"use a /{prefix} or larger")


def placed(
    case: Case, path: KeyPath, address: IPv4Address, name: str, cidr: IPv4Network
) -> Iterator[Finding]:
    """An address of a machine in that network, named ``name``."""
    if address not in cidr:
        place = f"{name} ({cidr}, line {case.line(('networks', name, 'cidr'))})"
        # A /31 and a /32 have no network and broadcast address (RFC 3021).
        spare = 0 if cidr.prefixlen >= 31 else 1
        first, last = cidr[spare], cidr[-1 - spare]
        yield case.problem(
            path, f"{address} is outside {place}", f"use an address from {first} to {last}"
        )
    elif cidr.prefixlen < 31 and address in (cidr.network_address, cidr.broadcast_address):
        which = "network" if address == cidr.network_address else "broadcast"
        yield case.problem(
            path, f"{address} is the {which} address of {name} ({cidr})", "use another address"
        )
