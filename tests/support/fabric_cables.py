"""Fabric cables, as several test modules use it."""

import json
from dataclasses import dataclass, field
from typing import Any

from appliance.checks.check import View
from appliance.models.facts import HostFacts
from appliance.models.site import Site
from appliance.stages.fabric.collect import topology
from appliance.stages.fabric.facts import Topology
from tests.support.fabric_facts import facts, profile

RAILS = 8


PER_LEAF = 20
"""Hosts on one group of leaves; the leaves' other ports go up."""


@dataclass
class Fabric:
    """Rail-optimised leaves in groups, one spine; ``at``: (host, rail) -> (group, leaf, port)."""

    hosts: int
    rails: int = RAILS
    at: dict[tuple[int, int], tuple[int, int, int]] = field(default_factory=dict)
    speed: dict[str, str] = field(default_factory=dict)
    down: set[str] = field(default_factory=set)
    named: bool = True
    words: str = "gpu-{host} mlx5_{rail}"
    sharp: bool = False

    def __post_init__(self) -> None:
        for host in range(self.hosts):
            for rail in range(self.rails):
                self.at[host, rail] = host // PER_LEAF, rail, host % PER_LEAF + 1

    @property
    def groups(self) -> int:
        return (self.hosts - 1) // PER_LEAF + 1

    def swap(self, a: tuple[int, int], b: tuple[int, int]) -> None:
        """Exchange two cables at the switches."""
        self.at[a], self.at[b] = self.at[b], self.at[a]

    def ibnetdiscover(self) -> str:
        """What the tool prints for switches; adapters follow without their ends."""
        leaves: dict[str, list[str]] = {
            leaf(g, r): [] for g in range(self.groups) for r in range(self.rails)
        }
        adapters, spine = [], []
        for (host, rail), (group, index, port) in self.at.items():
            name, text = adapter(host, rail), self.text(host, rail)
            adapters.append(f'Ca\t1 "{name}"\t\t# "{text}"\n')
            key = f"{leaf(group, index)}:{port}"
            speed = self.speed.get(key, "4xHDR")
            line = f'[{port}]\t"{name}"[1](b1) \t\t# "{text}" lid 3 {speed}'
            if key not in self.down:
                leaves[leaf(group, index)].append(line)
        for number, name in enumerate(leaves, 1):
            if f"{name}:up" in self.down:
                continue
            speed = self.speed.get(f"{name}:up", "4xHDR")
            if self.sharp:
                leaves[name].append(self.inside(name))
            leaves[name].append(f'[40]\t"S-{0xFFF:016x}"[{number}]\t\t# "spine-1" lid 1 {speed}')
            spine.append(f'[{number}]\t"{guid(name)}"[40]\t\t# "{name}" lid 1 {speed}')
        if self.sharp:
            spine.append(self.inside("spine-1"))
            text = "Mellanox Technologies Aggregation Node"
            adapters += [f'Ca\t1 "H-{n}"\t\t# "{text}"\n' for n in (*leaves, "spine-1")]
        blocks = [
            f'Switch\t40 "{guid(n)}"\t\t# "{n}" port 0\n' + "\n".join(c) for n, c in leaves.items()
        ]
        blocks.append(f'Switch\t200 "S-{0xFFF:016x}"\t\t# "spine-1" port 0\n' + "\n".join(spine))
        return "\n\n".join([*blocks, *adapters])

    def text(self, host: int, rail: int) -> str:
        """As rdma-ndd describes the adapter, or as its firmware does."""
        unnamed = "MT4123 ConnectX6 Mellanox Technologies"
        return self.words.format(host=host, rail=rail) if self.named else unnamed

    def inside(self, switch: str) -> str:
        """The end for SHARP every Quantum switch has."""
        return (
            f'[41]\t"H-{switch}"[1](b1) \t\t# "Mellanox Technologies Aggregation Node" lid 9 4xHDR'
        )

    def topology(self) -> Topology:
        return Topology.model_validate(topology.parse(self.ibnetdiscover()))

    def view(self, fabric: dict[str, Any] | None = None, *changed: HostFacts) -> View:
        """Everybody answered, and the head discovered the fabric."""
        stated = {"cabling": "rail-optimised"} if fabric is None else fabric
        hosts = [
            {"name": f"gpu-{n}", "roles": ["gpu"], "address": address(n)} for n in range(self.hosts)
        ]
        head = {"name": "head", "roles": ["control"], "address": "10.0.255.1"}
        text = {
            "version": 1,
            "name": "s",
            "networks": {"management": {"cidr": "10.0.0.0/16"}},
            "hosts": [head, *hosts],
            "fabric": stated,
        }
        known = {f"gpu-{n}": self.host(n) for n in range(self.hosts)}
        known["head"] = facts("head", topology=self.topology())
        return View(
            profile(ports=self.rails),
            Site.model_validate_json(json.dumps(text)),
            known | {one.host: one for one in changed},
        )

    def host(self, number: int, **ports: dict[str, Any]) -> HostFacts:
        """A host whose ports are up but for those named."""
        found = [
            {
                "device": f"mlx5_{r}",
                "port": 1,
                "state": "ACTIVE",
                "physical": "LinkUp",
                "rate": 200.0,
                "link_layer": "InfiniBand",
                "guid": f"0x{adapter(number, r)[2:]}",
                **ports.get(f"mlx5_{r}", {}),
            }
            for r in range(self.rails)
        ]
        known = facts("gpu-1", ports=found)
        system = known.os.model_copy(update={"hostname": f"gpu-{number}"})
        return known.model_copy(update={"host": f"gpu-{number}", "os": system})


def leaf(group: int, rail: int) -> str:
    return f"leaf-{group + 1}-{rail + 1}"


def guid(name: str) -> str:
    _, group, rail = name.split("-")
    return f"S-{0xA000 + int(group) * 256 + int(rail):016x}"


def adapter(host: int, rail: int) -> str:
    return f"H-{0xC000000 + host * 0x100 + rail * 0x10:016x}"


def address(number: int) -> str:
    return f"10.0.{number // 200}.{number % 200 + 1}"
