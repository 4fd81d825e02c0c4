"""DHCP servers as the installer finds them: real ones (dnsmasq), each behind a port of its own."""

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.adapters.process import run
from appliance.provision.ramdisk import dhcp
from appliance.provision.ramdisk.dhcp import Offer
from tests.support.dhcp_server import plug, stranger

pytestmark = pytest.mark.machines

OWN = "52:54:00:94:99:01"
WAIT_S = 5.0


@pytest.fixture
def bridge() -> Iterator[str]:
    name = "dhcp-hall"
    run(("ip", "link", "add", name, "address", OWN, "type", "bridge", "forward_delay", "0"))
    try:
        run(("ip", "link", "set", name, "up"))
        yield name
    finally:
        run(("ip", "link", "delete", name))


def test_nobody_answers_where_there_is_no_server(bridge: str) -> None:
    assert dhcp.Asking(bridge, OWN, WAIT_S).answer() == "none"


def test_each_of_two_servers_is_found_by_address_and_port_and_gives_nothing(
    bridge: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine is busy: whoever reads an answer does not run for a while."""
    read = dhcp.read

    def slow(packet: bytes, number: bytes, mac: str) -> Offer | None:
        time.sleep(WAIT_S / 2)
        return read(packet, number, mac)

    monkeypatch.setattr(dhcp, "read", slow)
    with (
        stranger(tmp_path, "one", "10.94.99.66", "10.94.99.99") as one,
        stranger(tmp_path, "two", "10.94.99.67", "10.94.99.98", "--dhcp-boot=x.efi") as two,
    ):
        plug(bridge, one)
        plug(bridge, two)
        assert dhcp.offers(bridge, OWN, WAIT_S) == [
            Offer("10.94.99.66", one.mac, "10.94.99.99", boots=False),
            Offer("10.94.99.67", two.mac, "10.94.99.98", boots=True),
        ]
        for server in (one, two):
            said = server.said.read_text()
            assert f"DHCPDISCOVER(eth0) {OWN}" in said
            assert "DHCPACK" not in said
    assert not list(tmp_path.glob("*.leases")) or not any(
        file.read_text() for file in tmp_path.glob("*.leases")
    )


@pytest.fixture
def cable() -> Iterator[tuple[str, str]]:
    ends = ("dhcp-near", "dhcp-far")
    run(("ip", "link", "add", ends[0], "type", "veth", "peer", "name", ends[1]))
    try:
        for end in ends:
            run(("ip", "link", "set", end, "up"))
        yield ends
    finally:
        run(("ip", "link", "delete", ends[0]))


def test_what_else_comes_to_its_port_takes_no_answers_room(cable: tuple[str, str]) -> None:
    near, far = cable
    asked = dhcp.discover(OWN, b"1234")
    answer = asked[:22] + dhcp.CLIENT_PORT.to_bytes(2) + asked[24:]
    of_tcp = answer[:9] + bytes((socket.IPPROTO_TCP,)) + answer[10:]
    of_fragment = answer[:6] + (100).to_bytes(2) + answer[8:]
    with dhcp.heard(near) as line, socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM) as sender:
        line.settimeout(5)
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 0)
        for packet in (*[asked, of_tcp, of_fragment] * 1000, answer):
            sender.sendto(packet, (far, dhcp.IPV4, 0, 0, b"\xff" * 6))
        assert line.recv(4096) == answer
        line.settimeout(0.5)
        with pytest.raises(TimeoutError):
            line.recv(4096)
