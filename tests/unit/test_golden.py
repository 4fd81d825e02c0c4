"""What the program makes of known sites is what it made before; where that shall change, the change is read and recorded."""

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
