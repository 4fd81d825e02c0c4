"""Cables of the simulated fabric: read from ibsim's console, moved by as few commands as it takes."""

import pytest

from appliance.errors import ApplianceError
from appliance.lab import cables, fabric, faults
from appliance.lab.cables import End, connect, home, plug
from appliance.lab.fabric_faults import FABRIC_FAULTS
from appliance.lab.fault import Fault
from appliance.lab.hardware import Hardware
from appliance.lab.netlist import LEAVES, hcas
from appliance.lab.spec import RackSpec, numbered

RACK = numbered(RackSpec(hosts=2), 1, {})
HOST = RACK.host("gpu-1")
ADAPTERS = {hca.device: hca for hca in hcas(RACK) if hca.host == "gpu-1"}


class Console:
    """ibsim's console, as far as cables go; an adapter's address is 7."""

    def __init__(self) -> None:
        self.cables: dict[End, End] = {}
        self.said: list[str] = []
        for hca in hcas(RACK):
            self.link(plug(hca), home(hca))

    def link(self, one: End, other: End) -> None:
        self.cables |= {one: other, other: one}

    def ask(self, _: object, line: str) -> str:
        if line == "Dump":
            return self.dump()
        self.said.append(line)
        ends = [
            End(node, int(port.partition("]")[0]))
            for node, port in zip(line.split('"')[1::2], line.split("[")[1:], strict=True)
        ]
        if line.startswith("Unlink"):
            self.cables.pop(self.cables.pop(ends[0]))
        elif line.startswith("Link"):
            if ends[0] in self.cables or ends[1] in self.cables:
                return "# can't link: local/remote port are already connected\n"
            self.link(*ends)
        return ""

    def dump(self) -> str:
        text = ["# Net status - Sat Nov 21 23:48:26 2026", ""]
        for node in dict.fromkeys(end.node for end in self.cables):
            text.append(f'{"Switch 40" if node.startswith("S") else "Ca 1"} "{node}"\tnodeguid 1')
            own = node.startswith("H")
            for end, far in self.cables.items():
                if end.node == node:
                    lid = " lid 7 lmc 0 smlid 1 " if own else " "
                    text.append(
                        f'c4\t[{end.port}]\t"{far.node}"[{far.port}]\t{lid} 4x 50G Active/LinkUp'
                    )
            text += ["c4\t[40]\t\t\t  4x  2.5G Down/Polling", ""]
        return "\n".join(text)


@pytest.fixture
def console(monkeypatch: pytest.MonkeyPatch) -> Console:
    made = Console()
    monkeypatch.setattr(fabric, "ask", made.ask)
    return made


def test_wiring_is_read_from_both_ends_with_the_addresses(console: Console) -> None:
    found = cables.wiring(RACK)
    assert found.cables == console.cables
    assert found.lids == {hca.node_id: 7 for hca in hcas(RACK)}


def test_what_is_in_its_place_is_left_alone(console: Console) -> None:
    connect(RACK, {plug(hca): home(hca) for hca in ADAPTERS.values()})
    assert console.said == []


def test_a_port_that_is_taken_is_refused_with_the_reason(console: Console) -> None:
    one, other = ADAPTERS["mlx5_1"], ADAPTERS["mlx5_2"]
    with pytest.raises(ApplianceError, match="already connected"):
        connect(RACK, {plug(one): home(other)})


CABLES = tuple(
    fault for fault in FABRIC_FAULTS if "cable" in fault.kind or fault.kind == "port-down"
)


@pytest.mark.parametrize("fault", CABLES, ids=lambda fault: fault.kind)
def test_a_fault_of_cables_is_taken_back_whole_and_twice_is_once(
    console: Console, fault: Fault
) -> None:
    before = dict(console.cables)
    for _ in range(2):
        faults.apply(RACK, HOST, fault.kind, fault.example)
    assert console.cables != before
    for _ in range(2):
        faults.apply(RACK, HOST, fault.kind, fault.example, clear=True)
    assert console.cables == before


def test_swapped_cables_change_places(console: Console) -> None:
    faults.apply(RACK, HOST, "cables-swapped", ("mlx5_1", "mlx5_6"))
    one, other = ADAPTERS["mlx5_1"], ADAPTERS["mlx5_6"]
    assert console.cables[plug(one)] == home(other)
    assert console.cables[plug(other)] == home(one)


def test_a_doubled_cable_takes_the_next_free_port_of_the_leaf(console: Console) -> None:
    faults.apply(RACK, HOST, "cable-doubled", ("mlx5_1", "mlx5_6"))
    faults.apply(RACK, HOST, "cable-doubled", ("mlx5_2", "mlx5_6"))
    leaf = LEAVES[6].node_id
    assert console.cables[plug(ADAPTERS["mlx5_1"])] == End(leaf, 33)
    assert console.cables[plug(ADAPTERS["mlx5_2"])] == End(leaf, 34)


def test_an_unknown_switch_names_the_known_ones() -> None:
    with pytest.raises(ApplianceError) as caught:
        faults.apply(RACK, HOST, "switch-link-missing", ("leaf-9",))
    assert "leaf-8" in caught.value.hint


@pytest.mark.parametrize("fault", FABRIC_FAULTS, ids=lambda fault: fault.kind)
def test_every_fault_has_an_example_that_names_what_the_rack_has(fault: Fault) -> None:
    assert len(fault.example) >= fault.required
    assert all(name in ADAPTERS or name.startswith("leaf-") for name in fault.example)


def test_an_ethernet_rack_has_no_cables_to_move() -> None:
    cards = numbered(RackSpec(hosts=2, profile="balanced"), 1, {}, Hardware(link_layer="Ethernet"))
    with pytest.raises(ApplianceError, match="Ethernet"):
        faults.apply(cards, cards.host("gpu-1"), "cables-swapped", ("mlx5_0", "mlx5_1"))
