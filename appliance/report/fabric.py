"""Renders the fabric as tables, topology.conf, node labels, and JSON."""

from collections.abc import Iterable, Mapping

from rich.console import Console
from rich.table import Table

from appliance.report.documents import Block, Nearness
from appliance.stages.fabric.switch_tree import SwitchTree, kubernetes, slurm


def rails_table(console: Console, rows: Iterable[tuple[str, ...]]) -> None:
    """Return a row per port: host, port, state, rate, leaf, its port."""
    table = Table(box=None, pad_edge=False)
    for name in ("host", "port", "state", "rate", "leaf", "leaf's port"):
        table.add_column(name, justify="right" if name in {"rate", "leaf's port"} else "left")
    for row in rows:
        table.add_row(*row)
    console.print(table)


def topology_conf(tree: SwitchTree) -> str:
    """Return the tree in the form of Slurm's topology/tree."""
    lines = [
        f"SwitchName={line['name']} "
        + (f"Nodes={line['nodes']}" if line["nodes"] else f"Switches={line['switches']}")
        for line in slurm(tree)
    ]
    return "".join(f"{line}\n" for line in lines)


def label_commands(tree: SwitchTree) -> str:
    """Return a command per host that sets its labels."""
    return "".join(
        f"kubectl label --overwrite node {host} {_words(labels)}\n"
        for host, labels in kubernetes(tree).items()
    )


def tree_document(tree: SwitchTree) -> Nearness:
    """Return blocks with the switches they stand for, and the labels of each host."""
    blocks = (
        Block(
            name=block.name,
            tier=block.tier,
            switches=tuple(block.switches),
            hosts=tuple(block.hosts),
            blocks=tuple(block.blocks),
        )
        for block in tree.blocks
    )
    return Nearness(blocks=tuple(blocks), labels=kubernetes(tree))


def _words(labels: Mapping[str, str]) -> str:
    return " ".join(f"{key}={value}" for key, value in labels.items())
