"""Makes the hosts' sysfs follow the simulated fabric, and tells the simulator of clients that died."""

import re
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from appliance.errors import ApplianceError
from appliance.lab import cgroups, fabric, sysfs
from appliance.lab.netlist import hcas
from appliance.lab.spec import Rack, RackHost, load

POLL_SECONDS = 2.0
LANES = {
    "50G": (50, "HDR"),
    "25G": (25, "EDR"),
    "14G": (14, "FDR"),
    "10.0G": (10, "QDR"),
    "5.0G": (5, "DDR"),
    "2.5G": (2.5, "SDR"),
}
"""Gb/s of a lane, and how the kernel calls it, by ibsim's word for it."""
NODE = re.compile(r'^Ca \d+ "(?P<id>[^"]+)"')
PORT = re.compile(
    r"\[1\].*\blid (?P<lid>\d+) lmc \d+ smlid (?P<sm>\d+)"
    r" +(?P<width>\d+)x +(?P<speed>\S+) (?P<state>\w+)/(?P<physical>\w+)"
)
CLIENT = re.compile(r'^Client (?P<number>\d+): pid (?P<port>\d+) connected at "(?P<id>[^"]+)"')


@dataclass(frozen=True)
class Client:
    """A program attached to the simulator: its slot, its UDP port and the node it sits on."""

    number: int
    port: int
    node_id: str


def ports(dump: str) -> dict[str, dict[str, str]]:
    """By node id, the sysfs files of each HCA's port, from what ibsim's Dump says."""
    found: dict[str, dict[str, str]] = {}
    node = ""
    for line in dump.splitlines():
        if start := NODE.match(line.removeprefix("sim> ")):
            node = start["id"]
        elif not line:
            node = ""
        elif node and (port := PORT.search(line)):
            rate = _rate(int(port["width"]), port["speed"])
            found[node] = sysfs.port_files(
                port["state"], port["physical"], int(port["lid"]), int(port["sm"]), rate
            )
    return found


def _rate(width: int, speed: str) -> str:
    """As the kernel writes it."""
    lane, name = LANES.get(speed, LANES["2.5G"])
    return f"{lane * width:g} Gb/sec ({width}X {name})"


def clients(attached: str) -> tuple[Client, ...]:
    """Who is attached, from what ibsim's Attached says."""
    lines = (CLIENT.match(line) for line in attached.splitlines())
    return tuple(Client(int(m["number"]), int(m["port"]), m["id"]) for m in lines if m)


def udp_ports(table: str) -> set[int]:
    """The local ports in the text of a /proc/PID/net/udp."""
    return {int(line.split()[1].rpartition(":")[2], 16) for line in table.splitlines()[1:]}


def follow(rack: Rack) -> None:
    """Bring every mounted host's tree up to date once."""
    now = ports(fabric.ask(rack, "Dump"))
    for hca in hcas(rack):
        folder = rack.host(hca.host).root / sysfs.ROOT / sysfs.port_path(hca.device)
        for name, value in now.get(hca.node_id, {}).items():
            file = folder / name
            with suppress(OSError):
                if file.read_text(encoding="utf-8") != f"{value}\n":
                    file.write_text(f"{value}\n", encoding="utf-8")


def release_dead_clients(rack: Rack, suspects: frozenset[Client]) -> frozenset[Client]:
    """ibsim has ten places and keeps those of killed programs: free them. Gives who seems dead, for the next look.

    A program that ends well gives its place back, and the next may have it a moment later: whoever lacks its port at one
    look alone may have just ended, and its place is somebody else's by now. The dead still hold theirs at the next look.
    """
    owner = {hca.node_id: rack.host(hca.host) for hca in hcas(rack)}
    attached = clients(fabric.ask(rack, "Attached"))
    lost = frozenset(
        c for c in attached if c.node_id in owner and c.port not in _bound(owner[c.node_id])
    )
    for client in lost & suspects:
        fabric.ask(rack, f"X {client.number}")
    return lost - suspects


def _bound(host: RackHost) -> set[int]:
    """UDP ports in use on a host; none where it is down."""
    try:
        return udp_ports(Path(f"/proc/{cgroups.init(host)}/net/udp").read_text(encoding="utf-8"))
    except OSError:
        return set()


def main(name: str) -> None:
    """Follow until the rack is gone."""
    suspects: frozenset[Client] = frozenset()
    while rack := load(name):
        with suppress(ApplianceError):
            follow(rack)
            suspects = release_dead_clients(rack, suspects)
        time.sleep(POLL_SECONDS)


if __name__ == "__main__":
    main(sys.argv[1])
