"""Cabling and links: fabrics as ibnetdiscover prints them, with cables swapped, doubled, lost and slow."""

import json
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from appliance.checks.check import View
from appliance.models.facts import HostFacts
from appliance.models.result import CheckResult, Status
from appliance.models.site import Site
from appliance.models.standing import Standing
from appliance.stages.fabric.checks.cabling import compare, judge_cabling
from appliance.stages.fabric.checks.links import judge_links
from appliance.stages.fabric.checks.subnet import judge_topology
from appliance.stages.fabric.collect import topology
from appliance.stages.fabric.facts import Topology
from tests.unit.checks.test_fabric import facts, profile

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


def cabling(view: View) -> list[CheckResult]:
    return [one.of("fabric.cabling") for one in judge_cabling(view)]


def links(view: View) -> list[CheckResult]:
    return [one.of("fabric.links") for one in judge_links(view)]


def listed(fabric: Fabric, **rest: Any) -> dict[str, Any]:
    """The list of a good fabric's cables."""
    cables = [
        {"host": f"gpu-{h}", "hca": f"mlx5_{r}", "switch": leaf(g, i), "port": p}
        for (h, r), (g, i, p) in fabric.at.items()
    ]
    return {"cabling": "listed", "cables": cables, **rest}


@pytest.mark.parametrize(("hosts", "named"), [(4, True), (4, False), (64, False), (512, True)])
def test_a_rail_optimised_fabric_of_any_size_is_good(hosts: int, named: bool) -> None:
    fabric = Fabric(hosts, named=named)
    view = fabric.view()
    (result,) = cabling(view)
    assert (result.status, result.value) == (Status.PASS, hosts * RAILS)
    assert result.evidence == f"{hosts} hosts on {fabric.groups * RAILS} leaves"
    assert [r.status for r in judge_links(view)] == [Status.PASS]


@pytest.mark.parametrize("hosts", [2, 64])
@pytest.mark.parametrize("named", [True, False])
def test_two_swapped_cables_are_both_named_by_both_ends(hosts: int, named: bool) -> None:
    fabric = Fabric(hosts, named=named)
    fabric.swap((1, 2), (1, 5))
    (result,) = cabling(fabric.view())
    assert (result.status, result.target) == (Status.FAIL, "gpu-1/mlx5_2")
    assert result.cause == (
        "two cables are swapped: mlx5_2 of gpu-1 is in port 2 of leaf-1-6, "
        "mlx5_5 of gpu-1 is in port 2 of leaf-1-3"
    )
    assert (
        "mlx5_2 of gpu-1 goes to port 2 of leaf-1-3, mlx5_5 of gpu-1 to port 2 of leaf-1-6"
        in result.fix
    )


def test_cables_swapped_between_groups_of_hosts_are_found() -> None:
    fabric = Fabric(64)
    fabric.swap((3, 4), (33, 4))
    (result,) = cabling(fabric.view())
    assert "mlx5_4 of gpu-3 is in port 14 of leaf-2-5" in result.cause
    assert "mlx5_4 of gpu-33 is in port 4 of leaf-1-5" in result.cause


def test_by_the_rule_ports_of_a_leaf_may_be_exchanged_but_not_by_the_list() -> None:
    fabric = Fabric(4)
    as_listed = listed(fabric)
    fabric.swap((0, 2), (1, 2))
    assert cabling(fabric.view())[0].status is Status.PASS
    (result,) = cabling(fabric.view(as_listed))
    assert "mlx5_2 of gpu-0 is in port 2 of leaf-1-3, mlx5_2 of gpu-1 is in port 1" in result.cause
    assert "mlx5_2 of gpu-0 goes to port 1 of leaf-1-3" in result.fix
    assert result.limit_source == "site.fabric.cables"


def test_two_cables_of_a_host_on_one_leaf_are_said_to_be_doubled() -> None:
    fabric = Fabric(4)
    fabric.at[1, 2] = (0, 5, 30)
    (result,) = cabling(fabric.view())
    assert result.target == "gpu-1/mlx5_2"
    assert "belongs in leaf-1-3; leaf-1-6 holds mlx5_5 of gpu-1 already" in result.cause
    assert result.fix == "move that cable from port 30 of leaf-1-6 to a free port of leaf-1-3"


@pytest.mark.parametrize(
    ("port", "said"),
    [
        ({}, "is not met by discovery (fabric.topology)"),
        ({"state": "DOWN", "physical": "Polling"}, "has no link (fabric.state)"),
    ],
)
def test_a_lost_cable_is_another_checks_failure_and_its_place_is_said(
    port: dict[str, Any], said: str
) -> None:
    fabric = Fabric(4)
    fabric.down.add("leaf-1-3:2")
    changed = fabric.host(1, mlx5_2=port)
    (by_rule,) = cabling(fabric.view(None, changed))
    (by_list,) = cabling(fabric.view(listed(fabric), changed))
    assert (by_rule.status, by_rule.target) == (Status.NOT_ASSESSED, "gpu-1/mlx5_2")
    assert not by_rule.required
    assert by_rule.cause == f"mlx5_2 of gpu-1 {said}; its cable belongs in leaf-1-3"
    assert by_list.cause == f"mlx5_2 of gpu-1 {said}; its cable belongs in port 2 of leaf-1-3"


def test_a_listed_adapter_no_host_has_is_a_mistake_in_the_list() -> None:
    fabric = Fabric(4)
    stated = listed(fabric)
    stated["cables"].append({"host": "gpu-1", "hca": "mlx5_9", "switch": "leaf-1-1", "port": 30})
    (result,) = cabling(fabric.view(stated))
    assert (result.status, result.target) == (Status.FAIL, "gpu-1/mlx5_9")
    assert "the host has no such adapter" in result.cause


def test_a_listed_adapter_that_is_missing_is_the_ports_failure() -> None:
    fabric = Fabric(4)
    stated = listed(fabric)
    fabric.down.add("leaf-1-3:2")
    seven = fabric.host(1)
    seven = seven.model_copy(
        update={"ports": tuple(p for p in seven.ports if p.device != "mlx5_2")}
    )
    (result,) = cabling(fabric.view(stated, seven))
    assert result.status is Status.NOT_ASSESSED
    assert "is missing (fabric.ports)" in result.cause


def test_ports_of_another_kind_do_not_stand_in_for_a_missing_adapter() -> None:
    fabric = Fabric(4)
    stated = listed(fabric)
    fabric.down.add("leaf-1-3:2")
    host = fabric.host(1, mlx5_2={"device": "mlx5_bond_0", "link_layer": "Ethernet"})
    (result,) = cabling(fabric.view(stated, host))
    assert result.status is Status.NOT_ASSESSED
    assert "is missing (fabric.ports)" in result.cause


def test_an_adapter_that_is_not_there_has_no_cable_to_miss() -> None:
    fabric = Fabric(4)
    fabric.down.add("leaf-1-3:2")
    seven = fabric.host(1)
    seven = seven.model_copy(
        update={"ports": tuple(p for p in seven.ports if p.device != "mlx5_2")}
    )
    assert cabling(fabric.view(None, seven))[0].status is Status.PASS


def test_a_cable_the_list_does_not_know_is_unexpected() -> None:
    fabric = Fabric(4)
    short = listed(fabric)
    short["cables"] = short["cables"][1:]
    (result,) = cabling(fabric.view(short))
    assert (result.status, result.target) == (Status.FAIL, "gpu-0/mlx5_0")
    assert "lists no cable for it" in result.cause


@pytest.mark.parametrize("by_list", [True, False])
def test_a_leaf_that_is_gone_is_one_finding_not_one_per_host(by_list: bool) -> None:
    fabric = Fabric(16)
    stated = listed(fabric) if by_list else None
    fabric.at = {key: place for key, place in fabric.at.items() if key[1] != 2}
    lines = fabric.ibnetdiscover().split("\n\n")
    seen = "\n\n".join(b for b in lines if '# "leaf-1-3" port 0' not in b)
    found = Topology.model_validate(topology.parse(seen))
    (result,) = cabling(fabric.view(stated, facts("head", topology=found)))
    assert (result.target, result.limit) == ("cluster", 16)
    assert ("leaf-1-3" if by_list else "the leaf of mlx5_2") in result.cause


def test_a_missing_link_between_switches_is_named_by_both() -> None:
    fabric = Fabric(64)
    fabric.down.add("leaf-2-4:up")
    (result,) = cabling(fabric.view())
    assert result.cause == "0 of 1 cables between leaf-2-4 and spine-1 are up"


def test_the_ends_of_sharp_inside_leaves_and_spines_make_no_spine_a_leaf() -> None:
    fabric = Fabric(64, sharp=True)
    assert cabling(fabric.view())[0].status is Status.PASS
    assert len(fabric.topology().hcas) == 64 * RAILS
    fabric.down.add("leaf-2-4:up")
    (result,) = cabling(fabric.view())
    assert result.cause == "0 of 1 cables between leaf-2-4 and spine-1 are up"


def test_adapters_openibd_describes_by_a_count_of_its_own_are_known_by_guid() -> None:
    fabric = Fabric(4, words="gpu-{host} HCA-{rail}")
    seen = fabric.view()
    assert [r.status for r in cabling(seen)] == [Status.PASS]
    assert [r.status for r in judge_topology(seen)] == [Status.PASS]
    fabric.swap((0, 1), (2, 5))
    assert cabling(fabric.view())[0].target == "gpu-0/mlx5_1"


def test_stated_trunks_are_counted_and_switches_may_be_named_by_guid() -> None:
    fabric = Fabric(4)
    own = f"0x{guid('leaf-1-4')[2:]}"
    trunks = [{"switch": own, "peer": "spine-1", "cables": 2}]
    (result,) = cabling(fabric.view({"cabling": "rail-optimised", "trunks": trunks}))
    assert result.cause == "1 of 2 cables between leaf-1-4 and spine-1 are up"
    assert result.limit_source == "site.fabric.trunks"


def test_unstated_cabling_is_not_assessed_and_nobody_minds() -> None:
    (result,) = cabling(Fabric(4).view({}))
    assert (result.status, result.required) == (Status.NOT_ASSESSED, False)


def test_without_discovery_cabling_and_links_are_not_assessed() -> None:
    mute = facts("head", topology=None, errors={"topology": "ibnetdiscover: no umad device"})
    view = Fabric(4).view(None, mute)
    for (result,) in (cabling(view), links(view)):
        assert (result.status, result.required) == (Status.NOT_ASSESSED, True)
        assert "no umad device" in result.cause


def test_discovery_of_foreign_adapters_only_is_no_pass() -> None:
    view = Fabric(4).view(None, facts("head", topology=Topology()))
    assert Status.PASS not in {r.status for r in [*cabling(view), *links(view)]}


def test_a_silent_host_that_discovery_does_not_meet_is_not_assessed() -> None:
    fabric = Fabric(4)
    fabric.down.add("leaf-1-3:2")
    view = fabric.view(listed(fabric))
    known = {name: found for name, found in view.facts.items() if name != "gpu-1"}
    (result,) = cabling(View(view.profile, view.site, known))
    assert result.status is Status.NOT_ASSESSED
    assert "gpu-1 did not answer" in result.cause


@pytest.mark.parametrize(
    ("speed", "what", "value"),
    [
        ("2xHDR", "half the width: 2x HDR", 100),
        ("4xEDR", "half the speed: 4x EDR", 100),
        ("1xSDR", "a reduced width and speed: 1x SDR", 2.5),
    ],
)
def test_a_slow_cable_is_named_by_both_ends(speed: str, what: str, value: float) -> None:
    fabric = Fabric(4, speed={"leaf-1-3:2": speed})
    (result,) = links(fabric.view())
    assert (result.status, result.target, result.value) == (Status.FAIL, "gpu-1/mlx5_2", value)
    assert "leaf-1-3 port 2 and gpu-1 mlx5_2 port 1" in result.cause
    assert what in result.cause


def test_a_slow_cable_between_switches_is_the_clusters() -> None:
    (result,) = links(Fabric(4, speed={"leaf-1-3:up": "2xHDR"}).view())
    assert (result.status, result.target) == (Status.FAIL, "cluster")
    assert "leaf-1-3 port 40 and spine-1 port 3" in result.cause


def test_a_rate_nobody_knows_is_not_assessed() -> None:
    (result,) = links(Fabric(4, speed={"leaf-1-3:2": "4xZDR"}).view())
    assert (result.status, result.required) == (Status.NOT_ASSESSED, False)


def test_both_ways_of_stating_a_fabric_agree() -> None:
    fabric = Fabric(64)
    by_list = fabric.view(listed(fabric))
    found = fabric.topology()
    assert compare(by_list, found).found == compare(fabric.view(), found).found
    assert [r.status for r in cabling(by_list)] == [Status.PASS]


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("lie", ["name", "ports", "both"])
def test_a_host_that_gives_itself_out_as_another_moves_no_cable_of_that_one(
    named: bool, lie: str
) -> None:
    fabric = Fabric(4, named=named)
    honest = {f"gpu-{n}": fabric.host(n) for n in range(4)}
    liar, victim = honest["gpu-3"], honest["gpu-1"]
    if lie != "ports":
        liar = liar.model_copy(update={"os": victim.os})
    if lie != "name":
        liar = liar.model_copy(update={"ports": victim.ports})
    said = replace(fabric.view(None, liar), standing=Standing(honest))
    found = compare(said, fabric.topology()).found
    assert len([plug for plug in found if plug.host == "gpu-1"]) == RAILS
    assert {r.target.partition("/")[0] for r in cabling(said) if r.status is Status.FAIL} <= {
        "gpu-3"
    }


def test_ports_that_two_hosts_claim_and_neither_was_accepted_with_are_neithers() -> None:
    fabric = Fabric(4, named=False)
    liar = fabric.host(3).model_copy(update={"ports": fabric.host(1).ports})
    found = compare(fabric.view(None, liar), fabric.topology()).found
    assert {plug.host for plug in found} == {"gpu-0", "gpu-2"}
