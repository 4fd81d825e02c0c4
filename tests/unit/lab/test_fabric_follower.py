"""What ibsim's console says becomes sysfs files and a list of clients."""

import pytest

from appliance.lab import fabric, fabric_follower
from appliance.lab.fabric_follower import (
    Client,
    clients,
    ports,
    release_dead_clients,
    udp_ports,
)
from appliance.lab.hardware import Hardware
from appliance.lab.netlist import hcas
from appliance.lab.spec import Rack, RackHost, RackSpec, numbered
from tests.support.fabric_dump import DUMP


def test_active_port_shows_its_lid_in_hexadecimal() -> None:
    assert ports(DUMP)["H-0c42a10300000000"] == {
        "state": "4: ACTIVE",
        "phys_state": "5: LinkUp",
        "lid": "0x1a",
        "sm_lid": "0x1",
        "rate": "200 Gb/sec (4X HDR)",
    }


def test_unlinked_port_polls() -> None:
    port = ports(DUMP)["H-0c42a10300010000"]
    assert (port["state"], port["phys_state"]) == ("1: DOWN", "2: Polling")


def test_switches_have_no_place_in_a_hosts_sysfs() -> None:
    assert len(ports(DUMP)) == 2


def test_attached_client_is_known_by_slot_and_udp_port() -> None:
    line = 'Client 3: pid 38218 connected at "H-0c42a10300000000" port 0xc42, lid 1, qp 0 SM\n'
    assert clients(line) == (Client(3, 38218, "H-0c42a10300000000"),)


def test_udp_table_gives_local_ports() -> None:
    table = (
        "   sl  local_address rem_address   st\n"
        "  12: 00000000:954A 0101004D:1B9E 01 00000000:00000000\n"
    )
    assert udp_ports(table) == {38218}


def test_a_port_at_half_width_shows_half_the_rate() -> None:
    half = DUMP.replace("lid 26 lmc 0 smlid 1  4x 50G", "lid 26 lmc 0 smlid 1  2x 50G")
    assert ports(half)["H-0c42a10300000000"]["rate"] == "100 Gb/sec (2X HDR)"


class Places:
    """ibsim's places and the hosts' UDP ports, as the follower finds them."""

    def __init__(self, rack: Rack, monkeypatch: pytest.MonkeyPatch) -> None:
        self.node = hcas(rack)[0].node_id
        self.attached: dict[int, int] = {}
        self.bound: set[int] = set()
        self.freed: list[int] = []
        monkeypatch.setattr(fabric, "ask", self.ask)
        monkeypatch.setattr(fabric_follower, "_bound", self.ports_of)

    def ports_of(self, rack: Rack, host: RackHost) -> set[int]:
        return self.bound

    def ask(self, rack: Rack, line: str) -> str:
        if line == "Attached":
            return "".join(
                f'Client {n}: pid {port} connected at "{self.node}" port 0x1, lid 1, qp 0\n'
                for n, port in self.attached.items()
            )
        number = int(line.removeprefix("X "))
        self.freed.append(number)
        del self.attached[number]
        return ""


@pytest.fixture
def rack() -> Rack:
    return numbered(RackSpec("r"), 1, {}, Hardware())


def test_the_place_of_a_program_that_was_killed_is_freed_at_the_second_look(
    rack: Rack, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = Places(rack, monkeypatch)
    places.attached, places.bound = {0: 4001, 1: 4002}, {4001}
    suspects = release_dead_clients(rack, frozenset())
    assert places.freed == []
    suspects = release_dead_clients(rack, suspects)
    assert places.freed == [1]
    assert release_dead_clients(rack, suspects) == frozenset()


def test_who_takes_over_the_place_of_a_program_that_has_just_ended_keeps_it(
    rack: Rack, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = Places(rack, monkeypatch)
    places.attached, places.bound = {0: 4001}, set()
    suspects = release_dead_clients(rack, frozenset())
    places.attached, places.bound = {0: 4003}, {4003}
    suspects = release_dead_clients(rack, suspects)
    places.attached, places.bound = {0: 4004}, set()
    release_dead_clients(rack, suspects)
    assert places.freed == []
