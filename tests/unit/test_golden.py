"""What the program makes of known sites is what it made before; where that shall change, the change is read and recorded."""

import json
from difflib import unified_diff
from pathlib import Path

import pytest

from tests.golden.record import RECORD, SITES, recorded

MOST = 60


@pytest.mark.parametrize("name", SITES)
def test_nothing_changed_that_was_not_recorded(name: str, tmp_path: Path) -> None:
    now = recorded(name, tmp_path)
    before = {file.name: file.read_text() for file in (RECORD / name).iterdir()}
    assert now.keys() == before.keys()
    changed = [
        line
        for file, text in now.items()
        for line in unified_diff(
            before[file].splitlines(), text.splitlines(), f"{name}/{file}", "now", lineterm="", n=1
        )
    ]
    shown = "\n".join(changed[:MOST])
    assert not changed, f"if this is meant: make golden\n{shown}"


@pytest.mark.parametrize("name", SITES)
def test_the_recorded_facts_hold_what_is_judged(name: str) -> None:
    said = json.loads((RECORD / name / "health.json").read_text())
    unread = {(one["id"], one["host"]) for one in said if one.get("cause") == "not read"}
    assert unread == set(), (
        "add what these checks read to tests/data/golden/facts, then: make golden"
    )
