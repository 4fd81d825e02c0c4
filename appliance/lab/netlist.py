"""The rack's ports, and the fabric as ibsim reads it: one leaf switch per rail, two spines above them, a port per HCA."""

from dataclasses import dataclass
from importlib.resources import files

from appliance.config.template import filled
from appliance.lab.hardware import INFINIBAND_RATES, node_guid
from appliance.lab.spec import Rack

RAILS = 8
SPINES = 2
SWITCH_PORTS = 40
SPARE_PORTS = (33, 34, 35, 36)
"""Ports of every leaf that are free, beyond those of the most hosts a rack may have."""


@dataclass(frozen=True)
class Hca:
    """One single-port adapter; ``leaf_port`` is its place on the leaf of its rail."""

    host: str
    device: str
    guid: int
    rail: int
    leaf_port: int

    @property
    def node_id(self) -> str:
        return f"H-{self.guid:016x}"

    @property
    def description(self) -> str:
        """The node's name in the fabric, as the driver sets it: host, then device."""
        return f"{self.host} {self.device}"


@dataclass(frozen=True)
class Switch:
    """A leaf, one for each rail from 1 on, or a spine."""

    kind: str
    number: int

    @property
    def guid(self) -> int:
        return 0x0C42A10300F00000 + (self.number if self.kind == "leaf" else self.number * 16 - 16)

    @property
    def node_id(self) -> str:
        return f"S-{self.guid:016x}"

    @property
    def description(self) -> str:
        return f"{self.kind}-{self.number}"


LEAVES = tuple(Switch("leaf", rail) for rail in range(1, RAILS + 1))
SPINE_SWITCHES = tuple(Switch("spine", number) for number in range(1, SPINES + 1))


def uplink(spine: Switch) -> int:
    """The port of every leaf that leads to a spine."""
    return SWITCH_PORTS + 1 - spine.number


def hcas(rack: Rack) -> tuple[Hca, ...]:
    """Every adapter of the rack; ``mlx5_<n>`` of each host is on rail n + 1."""
    return tuple(
        Hca(host.name, f"mlx5_{index}", node_guid(number, index), index + 1, number + 1)
        for number, host in enumerate(rack.hosts)
        for index in range(rack.hardware_of(host.name).ports_of(host.is_gpu))
    )


def render(rack: Rack) -> str:
    """The netlist, in ibnetdiscover's format."""
    template = files("appliance.lab").joinpath("templates/netlist.j2").read_text(encoding="utf-8")
    return filled(
        template,
        link=INFINIBAND_RATES[rack.hardware.rate],
        ports=SWITCH_PORTS,
        spare_ports=SPARE_PORTS,
        uplink=uplink,
        spines=SPINE_SWITCHES,
        leaves=LEAVES,
        hcas=[hca for hca in hcas(rack) if rack.hardware_of(hca.host).has_subnet],
    )
