"""The management port: found by its MAC address, and given the host's address."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from appliance.provision.ramdisk.shared import Refused, run

CARRIER_S = 90.0
"""Some ports and switches need a minute until the link is up."""
NET = Path("/sys/class/net")


def find(mac: str | None, net: Path = NET) -> str:
    """The name of the port with this address; without one: the only port with a link. Raises Refused."""
    ports = {port.name: _read(port / "address") for port in sorted(net.iterdir()) if is_port(port)}
    listed = ", ".join(f"{name} {address}" for name, address in ports.items()) or "none"
    if mac:
        for name, address in ports.items():
            if address == mac.lower():
                return name
        raise Refused(
            f"no port has the MAC address {mac}; there is {listed}",
            "correct hosts[].mac in site.yml",
        )
    carrying = [name for name in ports if _read(net / name / "carrier") == "1"]
    if len(carrying) != 1:
        raise Refused(
            f"{len(carrying)} ports could be the management port; there is {listed}",
            "set its MAC address: hosts[].mac in site.yml",
        )
    return carrying[0]


def is_port(port: Path) -> bool:
    """Whether this is Ethernet hardware: not loopback, bridge or InfiniBand."""
    return (port / "device").exists() and _read(port / "type") == "1"


def raise_all(net: Path = NET) -> None:
    """A port reports its link only once it is up."""
    for port in net.iterdir():
        if is_port(port):
            run("ip", "link", "set", port.name, "up")


def configure(name: str, settings: Mapping[str, Any], net: Path = NET) -> None:
    """Gives the port its address, and waits for its link. Raises Refused."""
    run("ip", "link", "set", name, "mtu", str(settings["mtu"]), "up")
    run("ip", "address", "replace", settings["address"], "dev", name)
    ends = time.monotonic() + CARRIER_S
    while _read(net / name / "carrier") != "1":
        if time.monotonic() > ends:
            raise Refused(f"port {name} has no link", "check its cable and its switch port")
        time.sleep(0.5)
    if gateway := settings.get("gateway"):
        run("ip", "route", "replace", "default", "via", gateway, "dev", name)


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="ascii").strip()
    except OSError:  # carrier of a port that is down
        return ""
