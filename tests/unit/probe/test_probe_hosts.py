"""Captured hosts, whole: the facts the probe makes of each tree."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from appliance.models.facts import HostFacts
from appliance.probe.__main__ import answer

CASES = sorted(path.name for path in (Path(__file__).parents[2] / "data/probe/hosts").iterdir())
Grow = Callable[[dict[str, Any]], str]
Load = Callable[[str], Any]


@pytest.mark.parametrize("case", CASES)
def test_facts_of_a_captured_host(case: str, grow: Grow, load: Load) -> None:
    root = grow(load(f"hosts/{case}/tree.json"))
    said = answer(json.dumps(load(f"hosts/{case}/request.json")).encode(), root)
    HostFacts.model_validate_json(json.dumps(said))
    found = json.loads(json.dumps(said).replace(root, ""))
    for filesystem in found.get("filesystems", []):
        for measured in ("size", "free", "inodes_free"):
            assert filesystem.pop(measured) > 0
    assert found["clock"].pop("time") > 1.7e9
    expected = load(f"hosts/{case}/expected.json")
    for area, facts in expected.items():
        assert found[area] == facts, f"{area}: if this is meant, write it into {case}/expected.json"


def test_an_empty_tree_gives_valid_facts_and_names_what_is_missing(grow: Grow) -> None:
    said = answer(
        b'{"areas": ["os", "disks", "filesystems", "packages"], "packages": ["bash"]}', grow({})
    )
    facts = HostFacts.model_validate_json(json.dumps(said))
    assert facts.os.id == "unknown"
    assert facts.cpu.threads == 0
    assert {"os", "cpu", "filesystems", "packages"} <= set(facts.errors)
    assert facts.errors["packages"] == "neither dpkg nor rpm is on this host"


def test_a_broken_simulation_marker_is_never_taken_for_real_hardware(grow: Grow) -> None:
    root = grow({"/etc/appliance/simulated.json": "{"})
    facts = HostFacts.model_validate_json(json.dumps(answer(b"{}", root)))
    assert facts.simulated == ("unknown",)
    assert "simulated.json cannot be read" in facts.errors["simulated"]


@pytest.mark.parametrize(
    ("request_", "why"),
    [
        (b"nonsense", "the request is not JSON"),
        (b"[]", "must be a JSON object"),
        (b'{"areas": ["gpu"]}', "unknown area gpu; known: slurm, os"),
        (b'{"units": "ssh"}', '"units" must be a list of names'),
        (b'{"resources": [{"kind": "file"}]}', '"resources" must be a list of'),
    ],
)
def test_a_request_that_makes_no_sense_is_refused(request_: bytes, why: str, grow: Grow) -> None:
    assert why in str(answer(request_, grow({}))["error"])
