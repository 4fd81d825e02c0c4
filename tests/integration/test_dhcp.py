"""DHCP servers as the installer finds them: real ones (dnsmasq), each behind a port of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.adapters.process import run
from appliance.provision.ramdisk import dhcp
from appliance.provision.ramdisk.dhcp import Offer
from tests.dhcp_server import Stranger, stranger

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


def plug(bridge: str, server: Stranger) -> None:
    run(("ip", "link", "set", server.port, "master", bridge))


def test_nobody_answers_where_there_is_no_server(bridge: str) -> None:
    assert dhcp.Asking(bridge, OWN, WAIT_S).answer() == "none"


def test_each_of_two_servers_is_found_by_address_and_port_and_gives_nothing(bridge: str, tmp_path: Path) -> None:  # fmt: skip
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
