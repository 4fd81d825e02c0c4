"""The cables of the rack's simulated fabric: their positions, and how to move one."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from appliance.errors import ApplianceError
from appliance.lab import fabric
from appliance.lab.netlist import LEAVES, SPARE_PORTS, Hca, Switch, uplink
from appliance.lab.spec import Rack

NODE = re.compile(r'^(?:Ca|Switch|Rt) \d+ "([^"]+)"')
PORT = re.compile(r'^[0-9a-f]+\t\[(\d+)\]\t(?:"([^"]+)"\[(\d+)\])?.*?(?:\blid (\d+) .*)?$')


@dataclass(frozen=True, order=True)
class End:
    """A port of an adapter or a switch, by its node's id."""

    node: str
    port: int

    def __str__(self) -> str:
        return f'"{self.node}"[{self.port}]'


@dataclass(frozen=True)
class Wiring:
    """The ports according to ibsim: the other end of each cable, from both ends, and the nodes' addresses."""

    cables: Mapping[End, End]
    lids: Mapping[str, int]


def read(dump: str) -> Wiring:
    """Parses the wiring from the output of ibsim's Dump."""
    cables: dict[End, End] = {}
    lids: dict[str, int] = {}
    for node, port, peer, peer_port, lid in _lines(dump):
        if peer and not peer.startswith("Sma "):
            cables[End(node, int(port))] = End(peer, int(peer_port))
        if lid:
            lids[node] = int(lid)
    return Wiring(cables, lids)


def _lines(dump: str) -> Iterator[tuple[str, ...]]:
    node = ""
    for line in dump.splitlines():
        if start := NODE.match(line.removeprefix("sim> ")):
            node = start[1]
        elif found := PORT.match(line):
            yield node, *(text or "" for text in found.groups())


def plug(hca: Hca) -> End:
    """The adapter's port."""
    return End(hca.node_id, 1)


def home(hca: Hca) -> End:
    """The correct position of the adapter's cable."""
    return End(LEAVES[hca.rail - 1].node_id, hca.leaf_port)


def trunk(leaf: Switch, spine: Switch) -> tuple[End, End]:
    """Both ends of the cable between a leaf and a spine."""
    return End(leaf.node_id, uplink(spine)), End(spine.node_id, leaf.number)


def spare(rack: Rack, leaf: Switch) -> End:
    """A free port of a leaf. Raises ApplianceError."""
    taken = wiring(rack).cables
    for port in SPARE_PORTS:
        if End(leaf.node_id, port) not in taken:
            return End(leaf.node_id, port)
    raise ApplianceError(f"{leaf.description} has no free port left", "clear one of its faults")


def wiring(rack: Rack) -> Wiring:
    """The present wiring of the fabric. Raises ApplianceError."""
    return read(fabric.ask(rack, "Dump"))


def connect(rack: Rack, wanted: Mapping[End, End | None]) -> None:
    """Connect these ends to the given ports, None for no port; existing correct connections are not changed.

    Raises ApplianceError if another cable is in the way.
    """
    now = wiring(rack).cables
    moves = {end: aim for end, aim in wanted.items() if now.get(end) != aim}
    for end in moves:
        if end in now:
            _say(rack, f"Unlink {end}")
    for end, aim in moves.items():
        if aim is not None:
            _say(rack, f"Link {end} {aim}")


def _say(rack: Rack, command: str) -> None:
    answer = fabric.ask(rack, command)
    problems = [line for line in answer.splitlines() if line.startswith("#")]
    if problems:
        raise ApplianceError(
            f"the simulated fabric refused: {command}: {problems[0].lstrip('# ')}",
            "clear the fault that has that port, then repeat",
        )
