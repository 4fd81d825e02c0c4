"""The fabric's tree for schedulers: right at any size, and unmoved by a bad cable."""

import pytest

from appliance.stages.fabric.facts import FabricNode, Link, Topology
from appliance.stages.fabric.switch_tree import LABEL, SwitchTree, kubernetes, slurm, switch_tree
from tests.support.fabric_cables import PER_LEAF, RAILS, Fabric


def tree(fabric: Fabric) -> SwitchTree:
    return switch_tree({f"gpu-{n}": fabric.host(n) for n in range(fabric.hosts)}, fabric.topology())


@pytest.mark.parametrize(("hosts", "named"), [(64, True), (64, False), (512, True)])
def test_hosts_that_share_their_leaves_are_one_block_below_the_spines(
    hosts: int, named: bool
) -> None:
    fabric = Fabric(hosts, named=named)
    *blocks, top = slurm(tree(fabric))
    assert [line["nodes"].split(",") for line in blocks] == [
        [f"gpu-{n}" for n in range(first, min(first + PER_LEAF, hosts))]
        for first in range(0, hosts, PER_LEAF)
    ]
    assert top == {
        "name": "spine-1",
        "nodes": "",
        "switches": ",".join(f"leaves-{n}" for n in range(1, fabric.groups + 1)),
    }


def test_a_fabric_of_one_group_is_one_switch() -> None:
    assert slurm(tree(Fabric(4))) == [
        {"name": "leaves-1", "nodes": "gpu-0,gpu-1,gpu-2,gpu-3", "switches": ""}
    ]


def test_labels_say_the_same_as_the_switches() -> None:
    labels = kubernetes(tree(Fabric(64)))
    assert labels["gpu-0"] == {LABEL.format(1): "leaves-1", LABEL.format(2): "spine-1"}
    assert labels["gpu-63"] == {LABEL.format(1): "leaves-4", LABEL.format(2): "spine-1"}
    assert len(labels) == 64


def test_a_block_names_the_switches_it_stands_for() -> None:
    first, *_ = tree(Fabric(64)).blocks
    assert first.switches == tuple(f"leaf-1-{n}" for n in range(1, RAILS + 1))


def test_no_bad_cable_moves_a_host() -> None:
    good = tree(Fabric(64))
    bad = Fabric(64)
    bad.swap((1, 2), (1, 5))
    bad.swap((3, 4), (33, 4))
    bad.at[7, 1] = (0, 5, 30)
    bad.down |= {"leaf-1-3:12", "leaf-3-1:2", "leaf-2-4:up"}
    assert tree(bad) == good


def test_a_host_nobody_meets_is_far_from_all_others() -> None:
    fabric = Fabric(64)
    fabric.down |= {f"leaf-1-{rail}:4" for rail in range(1, RAILS + 1)}
    found = tree(fabric)
    lines = slurm(found)
    assert lines[0] == {"name": "unplaced", "nodes": "gpu-3", "switches": ""}
    assert lines[-1]["switches"] == "spine-1,unplaced"
    assert "gpu-3" not in lines[1]["nodes"].split(",")
    assert kubernetes(found)["gpu-3"] == {LABEL.format(1): "unplaced", LABEL.format(3): "fabric"}


def test_a_host_nobody_meets_is_where_it_must_be_when_there_is_one_place_only() -> None:
    fabric = Fabric(4)
    fabric.down |= {f"leaf-1-{rail}:4" for rail in range(1, RAILS + 1)}
    assert "gpu-3" in slurm(tree(fabric))[0]["nodes"].split(",")


def plain(
    leaves: dict[str, list[str]], links: list[tuple[str, str]], more: tuple[str, ...] = ()
) -> SwitchTree:
    """Hosts with one adapter each on the named leaves; links between switches."""
    switches = dict.fromkeys([*leaves, *(end for pair in links for end in pair)])
    hosts = [host for own in leaves.values() for host in own]
    cables = [(f"{host} mlx5_0", leaf) for leaf, own in leaves.items() for host in own]
    cables += [(f"head{n} mlx5_0", leaf) for n, leaf in enumerate(more)]
    topology = Topology(
        hcas=tuple(FabricNode(guid="0x1", description=end, ports=1) for end, _ in cables),
        switches=tuple(FabricNode(guid="0x2", description=name, ports=40) for name in switches),
        links=tuple(
            Link(node=a, port=n, peer=b, peer_port=n)
            for n, (a, b) in enumerate([*cables, *links], 1)
        ),
    )
    return switch_tree(dict.fromkeys(hosts), topology)


def test_a_tree_of_three_tiers_keeps_its_switches_names() -> None:
    found = plain(
        {"l1": ["a"], "l2": ["b"], "l3": ["c"], "l4": ["d"]},
        [("l1", "s1"), ("l2", "s1"), ("l3", "s2"), ("l4", "s2"), ("s1", "core"), ("s2", "core")],
        more=("s1",),
    )
    assert [(line["name"], line["nodes"] or line["switches"]) for line in slurm(found)] == [
        ("l1", "a"),
        ("l2", "b"),
        ("l3", "c"),
        ("l4", "d"),
        ("s1", "l1,l2"),
        ("s2", "l3,l4"),
        ("core", "s1,s2"),
    ]
    labels = kubernetes(found)["d"]
    assert labels == {LABEL.format(1): "l4", LABEL.format(2): "s2", LABEL.format(3): "core"}


def test_a_leaf_of_other_machines_joins_nobody() -> None:
    found = plain(
        {"l1": ["a"], "l2": ["b"]}, [("l1", "s1"), ("l2", "s2"), ("s1", "x"), ("s2", "x")], ("x",)
    )
    assert [block.tier for block in found.blocks] == [1, 1]


def test_leaves_cabled_to_each_other_are_joined() -> None:
    found = plain({"l1": ["a"], "l2": ["b"]}, [("l1", "l2")])
    assert slurm(found)[-1] == {"name": "spines-1", "nodes": "", "switches": "l1,l2"}


def test_fabrics_without_a_way_between_them_stay_apart() -> None:
    assert [b.name for b in plain({"l1": ["a"], "l2": ["b"]}, []).blocks] == ["l1", "l2"]


def test_names_are_fit_for_slurm_and_for_labels() -> None:
    odd = plain({"MF0;sw 1:QM8700/U1": ["a"], "l2": ["b"]}, [])
    assert odd.blocks[0].name == "MF0-sw-1-QM8700-U1"


def test_nothing_discovered_is_no_tree() -> None:
    assert switch_tree({"gpu-0": None}, Topology()) == SwitchTree(())
