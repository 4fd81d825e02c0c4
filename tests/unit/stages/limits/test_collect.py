"""The last round of appliance-limits as the probe reads it."""

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from appliance.probe.ask import Ask
from appliance.probe.problems import Unreadable
from appliance.stages.limits import collect as limits
from appliance.stages.limits.facts import Limits
from tests.support.probe_trees import grow

__all__ = ["grow"]


Grow = Callable[[dict[str, Any]], str]
HERE = {limits.PROGRAM: "#!"}


def test_a_host_without_the_program_has_nothing_to_tell(grow: Grow) -> None:
    assert limits.collect(Ask({}, grow({"/etc/hostname": "gpu-1\n"}))) == {"limits": None}


def test_a_round_is_read_with_its_age(grow: Grow) -> None:
    state = {"taken": time.time() - 30, "leader": True, "pods": 3, "doubts": ["x"], "waits": ""}
    found = limits.collect(Ask({}, grow({**HERE, limits.STATE: json.dumps(state)})))["limits"]
    assert 29 <= found.pop("age_s") <= 120
    assert found == {"leader": True, "pods": 3, "waits": ""}
    assert Limits(age_s=1, **found).pods == 3


@pytest.mark.parametrize("said", ["", "{", "[]", "{}"])
def test_what_cannot_be_read_is_said(grow: Grow, said: str) -> None:
    with pytest.raises(Unreadable):
        limits.collect(Ask({}, grow({**HERE, limits.STATE: said})))
