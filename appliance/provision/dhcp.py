"""DHCP servers that answered a machine during its installation. None is needed, and a rogue server does harm."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address

from appliance.models.site import Site
from appliance.provision.settings import MANAGEMENT

ANSWER = re.compile(
    r"([0-9.]{7,15}) ((?:[0-9a-f]{2}:){5}[0-9a-f]{2}) ([0-9.]{7,15})( boots)?", re.ASCII
)
REMEDY = "switch it off (its MAC address identifies the port), or list it if it is intentional: networks.management.dhcp in site.yml"


@dataclass(frozen=True)
class Server:
    """One DHCP server; ``offers``: the address that it offered."""

    address: IPv4Address
    mac: str
    offers: IPv4Address
    boots: bool


def servers(said: str) -> list[Server]:
    """The servers reported by an installer (provision/ramdisk/dhcp.py); invalid entries are dropped."""
    found = []
    for part in said.split(", "):
        if match := ANSWER.fullmatch(part):
            try:
                address, offers = IPv4Address(match[1]), IPv4Address(match[3])
            except ValueError:
                continue
            found.append(Server(address, match[2], offers, bool(match[4])))
    return found


def unexpected_servers(site: Site, found: Iterable[Server]) -> list[Server]:
    """Those that are not listed in the site."""
    meant = site.networks[MANAGEMENT].dhcp
    return [one for one in found if one.address not in meant]


def server_text(site: Site, one: Server) -> str:
    """Its identity and its offer."""
    other = "another DHCP server" if site.networks[MANAGEMENT].dhcp else "a DHCP server"
    owner = next((host.name for host in site.hosts if host.address == one.offers), "")
    offer = f"it offers {one.offers}" + (f", the address of {owner}" if owner else "")
    boots = ", and a boot program" if one.boots else ""
    return f"{other} that is not listed in the site answers in network {MANAGEMENT}: {one.address}, MAC address {one.mac}; {offer}{boots}"
