"""A DHCP server that nobody asked for: a real dnsmasq behind a port of its own, in a network namespace of its own."""

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from appliance.adapters.process import run, spawn
from appliance.lab import processes

STARTS_S = 20.0


@dataclass(frozen=True)
class Stranger:
    """``offers``: the one address that it has. ``port``: its cable's end on this machine. ``said``: dnsmasq's own log."""

    address: str
    mac: str
    offers: str
    port: str
    said: Path


@contextmanager
def stranger(folder: Path, name: str, address: str, offers: str, *more: str) -> Iterator[Stranger]:
    """Raises it, with an address of a /24 and one address to offer; its cable's end is up, and in no bridge yet."""
    if not shutil.which("dnsmasq"):
        raise AssertionError("not installed: apt-get install dnsmasq-base")
    space, port, said = f"dhcp-{name}", f"dhcp-{name}", folder / f"{name}.log"
    within = ("ip", "-n", space)
    run(("ip", "netns", "add", space))
    try:
        run(("ip", "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", space))
        run(("ip", "link", "set", port, "up"))
        run((*within, "address", "add", f"{address}/24", "dev", "eth0"))
        run((*within, "link", "set", "eth0", "up"))
        mac = run((*within, "-o", "link", "show", "eth0")).stdout.partition("link/ether ")[2].split()[0]  # fmt: skip
        options = (
            "--keep-in-foreground",
            "--conf-file=/dev/null",
            "--port=0",
            "--user=root",
            "--pid-file=",
            f"--dhcp-leasefile={folder / name}.leases",
            "--log-facility=-",
            "--log-dhcp",
            f"--dhcp-range={offers},{offers},120",
            *more,
        )
        argv = ("ip", "netns", "exec", space, "dnsmasq", *options)
        server = spawn(argv, env={processes.MARK: str(folder)}, log=said)
        try:
            ends = time.monotonic() + STARTS_S
            while "DHCP, IP range" not in said.read_text():
                assert time.monotonic() < ends, said.read_text()
                time.sleep(0.1)
            yield Stranger(address, mac, offers, port, said)
        finally:
            processes.kill(server)
    finally:
        run(("ip", "netns", "delete", space))


def plug(bridge: str, server: Stranger) -> None:
    """Its cable into a bridge."""
    run(("ip", "link", "set", server.port, "master", bridge))
