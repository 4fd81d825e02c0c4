"""The tree in the shapes Slurm, Kubernetes and programs read."""

from appliance.report.fabric import label_commands, topology_conf, tree_document
from appliance.stages.fabric.switch_tree import Block, SwitchTree

TREE = SwitchTree(
    (
        Block("leaves-1", 1, ("leaf-1", "leaf-2"), ("gpu-1", "gpu-2")),
        Block("leaves-2", 1, ("leaf-3", "leaf-4"), ("gpu-3",)),
        Block("spine-1", 2, ("spine-1",), (), ("leaves-1", "leaves-2")),
    )
)


def test_slurm_reads_a_switch_per_line() -> None:
    assert topology_conf(TREE) == (
        "SwitchName=leaves-1 Nodes=gpu-1,gpu-2\n"
        "SwitchName=leaves-2 Nodes=gpu-3\n"
        "SwitchName=spine-1 Switches=leaves-1,leaves-2\n"
    )


def test_every_node_gets_a_label_per_tier() -> None:
    assert label_commands(TREE).splitlines()[2] == (
        "kubectl label --overwrite node gpu-3 "
        "fabric.topograph.run/tier-1=leaves-2 fabric.topograph.run/tier-2=spine-1"
    )


def test_programs_get_the_switches_a_block_stands_for_and_the_labels() -> None:
    document = tree_document(TREE).model_dump(mode="json")
    assert document["blocks"][0] == {
        "name": "leaves-1",
        "tier": 1,
        "switches": ["leaf-1", "leaf-2"],
        "hosts": ["gpu-1", "gpu-2"],
        "blocks": [],
    }
    assert document["labels"]["gpu-1"]["fabric.topograph.run/tier-2"] == "spine-1"


def test_no_tree_is_no_text() -> None:
    assert topology_conf(SwitchTree(())) == label_commands(SwitchTree(())) == ""
