"""A check's id stands with its check: in the package of its stage, and elsewhere only where it is named as what explains."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from appliance.bmc.checks import CHECKS as OF_CONTROLLERS
from appliance.config import data
from appliance.stages.catalog import STAGES

ROOT = data.root()
HOMES = {check.id: f"appliance/stages/{s.name}/" for s in STAGES for check in s.judges} | {
    check.id: "appliance/bmc/" for check in OF_CONTROLLERS
}
EXPLAINS = {"Cause", "Effect", "same"}
"""What says which check explains which; its first argument is an id."""
OTHERS = {
    "appliance/watch/": "runs on hosts, where there are no checks; its faults bear their ids",
    "appliance/lab/gpu_faults.py": "which check tells of a fault of the rack",
    "appliance/lab/fabric_faults.py": "the same",
    "appliance/lab/service_faults.py": "the same",
    "appliance/lab/board_faults.py": "the same",
    "appliance/stages/base/alerts.py": "an alert that another stage's check explains",
    "appliance/stages/observe/alerts.py": "the same",
    "appliance/stages/slurm/variables/watch.py": "hosts watch themselves by limits of these checks",
    "appliance/engine/remaining.py": "drift is what the plan tells of already",
    "appliance/actions/capture.py": "no ids, but keys of hardware in a profile",
    "appliance/actions/node_conditions.py": "what takes a host of Slurm out by its own watch takes one of Kubernetes out",
    "appliance/actions/shown_hardware.py": "the same",
}
"""Files with ids of checks that are not theirs, and why; one entry fewer is one better."""


def strangers(source: str, path: str) -> Iterator[str]:
    """Ids in a file outside the package of their checks, with the line of each."""
    tree = ast.parse(source)
    explaining = {
        id(node.args[0])
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args
        if node.func.id in EXPLAINS
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            home = HOMES.get(node.value)
            if home and not path.startswith(home) and id(node) not in explaining:
                yield f"{path}:{node.lineno} {node.value}"


@cache
def found() -> dict[str, list[str]]:
    """Files of the program with such ids."""
    files = sorted(file.relative_to(ROOT).as_posix() for file in ROOT.glob("appliance/**/*.py"))
    seen = {path: list(strangers(Path(ROOT, path).read_text(), path)) for path in files}
    return {path: ids for path, ids in seen.items() if ids}


def test_ids_stand_with_their_checks() -> None:
    assert [
        one for path, ids in found().items() for one in ids if not path.startswith(tuple(OTHERS))
    ] == []


def test_every_exception_is_one() -> None:
    assert [known for known in OTHERS if not any(path.startswith(known) for path in found())] == []


def test_an_id_elsewhere_is_seen() -> None:
    source = 'Cause("gpu.ecc", "x")\nif result.id == "gpu.ecc":\n    pass\n'
    assert [*strangers(source, "appliance/engine/judge.py")] == [
        "appliance/engine/judge.py:2 gpu.ecc"
    ]
    assert [*strangers(source, "appliance/stages/gpu/checks/memory.py")] == []
