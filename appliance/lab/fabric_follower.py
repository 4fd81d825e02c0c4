"""Updates the hosts' sysfs from the simulated fabric, and reports dead clients to the simulator."""

import re
import shlex
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from appliance.errors import ApplianceError
from appliance.lab import cgroups, fabric, ssh, sysfs
from appliance.lab.netlist import hcas
from appliance.lab.spec import Rack, RackHost, load

POLL_SECONDS = 2.0
CROWDED = 6
"""Number of programs attached to the simulator, which has ten places. From this number on, virtual machines are queried for live ones."""
EMULATED_S = 5.0
"""Time limit for the SSH greeting of a virtual machine: under load it takes seconds."""
LANES = {
    "50G": (50, "HDR"),
    "25G": (25, "EDR"),
    "14G": (14, "FDR"),
    "10.0G": (10, "QDR"),
    "5.0G": (5, "DDR"),
    "2.5G": (2.5, "SDR"),
}
"""Gb/s of a lane, and the kernel's name for it, by ibsim's name."""
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
    """By node id, the sysfs files of each HCA's port, from the output of ibsim's Dump."""
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
    """The kernel's notation."""
    lane, name = LANES.get(speed, LANES["2.5G"])
    return f"{lane * width:g} Gb/sec ({width}X {name})"


def clients(attached: str) -> tuple[Client, ...]:
    """The attached programs, from the output of ibsim's Attached."""
    lines = (CLIENT.match(line) for line in attached.splitlines())
    return tuple(Client(int(m["number"]), int(m["port"]), m["id"]) for m in lines if m)


def udp_ports(table: str) -> set[int]:
    """The local ports in the text of a /proc/PID/net/udp."""
    return {int(line.split()[1].rpartition(":")[2], 16) for line in table.splitlines()[1:]}


def follow(rack: Rack, told: dict[str, str]) -> None:
    """Update every host's tree once. ``told``: the last state that was sent to each virtual machine."""
    now = ports(fabric.ask(rack, "Dump"))
    if rack.spec.is_virtual:
        _tell(rack, now, told)
        return
    for hca in hcas(rack):
        folder = rack.host(hca.host).root / sysfs.ROOT / sysfs.port_path(hca.device)
        for name, value in now.get(hca.node_id, {}).items():
            file = folder / name
            with suppress(OSError):
                if file.read_text(encoding="utf-8") != f"{value}\n":
                    file.write_text(f"{value}\n", encoding="utf-8")


def _tell(rack: Rack, now: dict[str, dict[str, str]], told: dict[str, str]) -> None:
    """Sends the state by ssh to each reachable machine that does not have it; one that was away may have another disk."""
    for host in rack.hosts:
        if not ssh.answers(host, EMULATED_S):
            told.pop(host.name, None)
            continue
        line = _writing(
            {h.device: now.get(h.node_id, {}) for h in hcas(rack) if h.host == host.name}
        )
        if told.get(host.name) != line and not ssh.on_host(rack, host, (line,)).returncode:
            told[host.name] = line


def _writing(devices: dict[str, dict[str, str]]) -> str:
    """A shell's line that writes the files of each device's port."""
    return "; ".join(
        f"echo {shlex.quote(value)} >/{sysfs.ROOT}/{sysfs.port_path(device)}/{name}"
        for device, files in devices.items()
        for name, value in files.items()
    )


def release_dead_clients(rack: Rack, suspects: frozenset[Client]) -> frozenset[Client]:
    """ibsim has ten places and keeps those of killed programs: free them. Returns the programs that seem dead, for the next check.

    A program that ends normally frees its place, and the next may get it a moment later. A program whose port is missing in only one
    check may have just ended, and its place may belong to another by now. Dead ones still have theirs in the next check.
    """
    owner = {hca.node_id: rack.host(hca.host) for hca in hcas(rack)}
    attached = clients(fabric.ask(rack, "Attached"))
    if rack.spec.is_virtual and len(attached) < CROWDED:
        return frozenset()
    lost = frozenset(
        c for c in attached if c.node_id in owner and c.port not in _bound(rack, owner[c.node_id])
    )
    for client in lost & suspects:
        fabric.ask(rack, f"X {client.number}")
    return lost - suspects


def _bound(rack: Rack, host: RackHost) -> set[int]:
    """UDP ports in use on a host; none if it is down. Raises ApplianceError if a virtual machine does not report them."""
    if rack.spec.is_virtual:
        if not ssh.answers(host, EMULATED_S):
            return set()
        said = ssh.on_host(rack, host, ("cat", "/proc/net/udp"))
        if said.returncode:
            raise ApplianceError(f"{host.name} did not list its UDP ports")
        return udp_ports(said.stdout)
    try:
        return udp_ports(Path(f"/proc/{cgroups.init(host)}/net/udp").read_text(encoding="utf-8"))
    except OSError:
        return set()


def main(name: str) -> None:
    """Follow until the rack is removed."""
    suspects: frozenset[Client] = frozenset()
    told: dict[str, str] = {}
    while rack := load(name):
        with suppress(ApplianceError):
            follow(rack, told)
            suspects = release_dead_clients(rack, suspects)
        time.sleep(POLL_SECONDS)


if __name__ == "__main__":
    main(sys.argv[1])
