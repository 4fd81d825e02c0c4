"""A check's id is spelled in ``ids`` of its stage, once; all others name it there, so that the type checker sees a slip."""

import ast
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from appliance.bmc.checks import CHECKS as OF_CONTROLLERS
from appliance.config import data
from appliance.stages.catalog import STAGES
from appliance.stages.stage import Stage

ROOT = data.root()
HOMES = {check.id: f"appliance/stages/{s.name}/ids.py" for s in STAGES for check in s.judges} | {
    check.id: "appliance/bmc/" for check in OF_CONTROLLERS
}
ALIKE = {
    ("appliance/actions/profiles/capture.py", "gpu.count"): "a key of hardware in a profile",
    ("appliance/stages/observe/checks.py", "observe.receivers"): "a key of the site",
    ("appliance/stages/renamed.py", "scheduler.releases"): "an id of an earlier version",
    ("appliance/stages/renamed.py", "scheduler.pods"): "an id of an earlier version",
}
"""Texts that are spelled as an id and mean something else."""


def strangers(source: str, path: str) -> Iterator[tuple[str, str]]:
    """Ids that are spelled in a file which is not theirs."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            home = HOMES.get(node.value)
            if home and not path.startswith(home):
                yield path, node.value


def found() -> list[tuple[str, str]]:
    """In all files of the program."""
    files = sorted(file.relative_to(ROOT).as_posix() for file in ROOT.glob("appliance/**/*.py"))
    return [one for path in files for one in strangers(Path(ROOT, path).read_text(), path)]


def test_an_id_is_spelled_once() -> None:
    assert found() == sorted(ALIKE)


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.name)
def test_ids_and_checks_of_a_stage_are_the_same(stage: Stage) -> None:
    spelled = vars(import_module(f"appliance.stages.{stage.name}.ids"))
    named = {name: value for name, value in spelled.items() if name.isupper()}
    assert sorted(named.values()) == sorted(check.id for check in stage.judges)
    assert [n for n, value in named.items() if n.lower() != value.partition(".")[2]] == []


def test_an_id_elsewhere_is_seen() -> None:
    source = 'Cause("gpu.ecc", "x")\nif result.id == "gpu.ecc":\n    pass\n'
    assert len([*strangers(source, "appliance/engine/look/judge.py")]) == 2
    assert [*strangers(source, "appliance/stages/gpu/ids.py")] == []
