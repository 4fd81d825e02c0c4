"""DHCP servers that answered a machine while it was installed. Nothing here needs one, and one that nobody meant does harm."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address

from appliance.models.site import Site
from appliance.provision.settings import MANAGEMENT

ANSWER = re.compile(
    r"([0-9.]{7,15}) ((?:[0-9a-f]{2}:){5}[0-9a-f]{2}) ([0-9.]{7,15})( boots)?", re.ASCII
)
REMEDY = "switch it off there (its MAC address names the port), or name it where it is meant: networks.management.dhcp in site.yml"


@dataclass(frozen=True)
class Server:
    """One of them; ``offers``: an address that it would have given."""

    address: IPv4Address
    mac: str
    offers: IPv4Address
    boots: bool


def servers(said: str) -> list[Server]:
    """What an installer said of them (provision/ramdisk/dhcp.py); what it cannot have said is left out."""
    found = []
    for part in said.split(", "):
        if match := ANSWER.fullmatch(part):
            try:
                address, offers = IPv4Address(match[1]), IPv4Address(match[3])
            except ValueError:
                continue
            found.append(Server(address, match[2], offers, bool(match[4])))
    return found


def strangers(site: Site, found: Iterable[Server]) -> list[Server]:
    """Those that the site does not name."""
    meant = site.networks[MANAGEMENT].dhcp
    return [one for one in found if one.address not in meant]


def told(site: Site, one: Server) -> str:
    """Who it is, and what it does."""
    other = "another DHCP server" if site.networks[MANAGEMENT].dhcp else "a DHCP server"
    owner = next((host.name for host in site.hosts if host.address == one.offers), "")
    offer = f"it offers {one.offers}" + (f", the address of {owner}" if owner else "")
    boots = ", and a system to start from it" if one.boots else ""
    return f"{other} that the site does not name answers in network {MANAGEMENT}: {one.address}, MAC address {one.mac}; {offer}{boots}"
