"""docs/runai.md says of each key of the tree what becomes of it in Run:ai."""

import re
from pathlib import Path

from tools.published.keys import rows

PAGE = Path(__file__).parents[2] / "docs/runai.md"
AMOUNTS = re.compile(r"\.(gpu|cpu|memory)(\.(quota|limit|weight))?$")


def words() -> set[str]:
    """Every key in the first column of the page's table."""
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    return {
        word.split(".")[-1].removesuffix("[]")
        for line in lines
        for word in re.findall("`([^`]+)`", line.split("|")[1])
    }


def named(key: str) -> str:
    """The last part of a key: gpu, cpu and memory are the same wherever they stand."""
    if found := AMOUNTS.search(key):
        return found[1] if found[1] != "gpu" or not found[3] else found[3]
    return key.removesuffix("[]").split(".")[-1]


def test_each_key_of_the_tree_is_in_the_table() -> None:
    whole = {"scheduler", "scheduler.kind", "scheduler.runai"}
    parts = (
        "scheduler.projects[].trees[].",
        "scheduler.priorities[].",
        "scheduler.runai.install.",
    )
    keys = [
        key
        for key, *_ in rows("site")
        if key.startswith("scheduler") and key not in whole and not key.startswith(parts)
    ]
    lists = {"node_pools", "departments", "projects", "queues", "topology", "gpu"}
    known = words() | lists
    assert len(keys) > 80
    assert [key for key in keys if named(key) not in known] == []


def test_a_key_without_a_row_is_noticed() -> None:
    assert "unassigned" in words()
    assert "reclaim_min_runtime" in words()
    assert "another_key" not in words()
