"""The last backup as the probe reads it."""

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from appliance.probe.ask import Ask
from appliance.probe.problems import Unreadable
from appliance.stages.backup import collect as backup
from appliance.stages.backup.facts import Backup
from tests.support.probe_trees import grow

__all__ = ["grow"]

Grow = Callable[[dict[str, Any]], str]
HERE = {backup.PROGRAM: "#!"}


def test_a_host_without_the_program_has_none(grow: Grow) -> None:
    assert backup.collect(Ask({}, grow({"/etc/hostname": "gpu-1\n"}))) == {"backup": None}


def test_a_host_that_has_never_tried(grow: Grow) -> None:
    assert backup.collect(Ask({}, grow(HERE))) == {"backup": {}}


def test_a_backup_is_read_with_its_age(grow: Grow) -> None:
    now = time.time()
    state = {"tried": now - 5, "written": now - 300, "problem": "x", "kind": "target", "name": "n"}
    found = backup.collect(Ask({}, grow({**HERE, backup.STATE: json.dumps(state)})))["backup"]
    assert 299 <= found["age_s"] <= 400
    assert 4 <= found["tried_s"] <= 100
    assert Backup(**found).problem == "x"


@pytest.mark.parametrize("said", ["{", "[]", '{"tried": "x"}'])
def test_what_cannot_be_read_is_said(grow: Grow, said: str) -> None:
    with pytest.raises(Unreadable):
        backup.collect(Ask({}, grow({**HERE, backup.STATE: said})))
