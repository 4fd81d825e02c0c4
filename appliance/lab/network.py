"""The rack's own network: a bridge on this machine, masqueraded by a table of its own."""

import json
from ipaddress import IPv4Network
from pathlib import Path

from appliance.adapters.process import run
from appliance.errors import ApplianceError
from appliance.lab import kernel
from appliance.lab.spec import SECONDS, TABLES, Rack, network_of, racks


def links(*, master: str | None = None) -> tuple[str, ...]:
    """Names of this machine's network links, or of those in one bridge."""
    select = ("master", master) if master else ()
    done = run(("ip", "-json", "link", "show", *select), check=False)
    return tuple(link["ifname"] for link in json.loads(done.stdout or "[]") if "ifname" in link)


def free_index() -> int:
    """The first number whose networks neither a rack nor this machine uses."""
    taken = {rack.index for rack in racks()}
    routes = run(("ip", "-json", "route", "show", "table", "all")).stdout
    used = {str(route.get("dst", "")) for route in json.loads(routes or "[]")}
    for index in range(1, 255):
        wanted = {str(network_of(index, second)) for second in SECONDS}
        if index not in taken and not wanted & used:
            return index
    raise ApplianceError(
        "no free network 10.77.x.0/24, 10.93.x.0/24 and 10.94.x.0/24",
        "remove a rack: appliance lab down",
    )


def raise_bridge(rack: Rack) -> None:
    """Create the bridge and its rules; existing ones stay."""
    if rack.bridge not in links():
        run(("ip", "link", "add", rack.bridge, "type", "bridge", "forward_delay", "0"))
    address = f"{rack.gateway}/{rack.network.prefixlen}"
    run(("ip", "address", "replace", address, "dev", rack.bridge))
    run(("ip", "link", "set", rack.bridge, "up"))
    let_out(rack.table, rack.network)


def let_out(table: str, network: IPv4Network) -> None:
    """Let this machine forward packets from our network, masqueraded by a table of its own."""
    kernel.raise_all()
    run(("nft", "-f", "-"), input=ruleset(table, network))


def shut_in(table: str) -> None:
    """Remove a table of ``let_out``; with the last one, the machine's kernel settings are restored."""
    run(("nft", "delete", "table", "ip", table), check=False)
    told = json.loads(run(("nft", "--json", "list", "tables")).stdout or "{}")
    names = [one["table"]["name"] for one in told.get("nftables", ()) if "table" in one]
    if not any(name.startswith(TABLES) for name in names):
        kernel.give_back()


def ruleset(table: str, network: IPv4Network) -> str:
    """The nftables script that makes a table, replacing an older one.

    Where br_netfilter is loaded, what passes the bridge comes here, too: a broadcast would have another sender.
    """
    return f"""table ip {table} {{}}
delete table ip {table}
table ip {table} {{
  chain postrouting {{
    type nat hook postrouting priority srcnat;
    ip saddr {network} ip daddr != {{ {network}, 224.0.0.0/4, 255.255.255.255 }} masquerade
  }}
}}
"""


def lower_bridge(rack: Rack) -> None:
    """Remove bridge, links and rules."""
    for name in links(master=rack.bridge):
        run(("ip", "link", "delete", name), check=False)
    run(("ip", "link", "delete", rack.bridge), check=False)
    shut_in(rack.table)


def resolver() -> str:
    """resolv.conf for the hosts: the machine's, but never a resolver on its loopback."""
    own = Path("/etc/resolv.conf").read_text(encoding="utf-8")
    upstream = Path("/run/systemd/resolve/resolv.conf")
    if "nameserver 127." in own and upstream.exists():
        return upstream.read_text(encoding="utf-8")
    return own
