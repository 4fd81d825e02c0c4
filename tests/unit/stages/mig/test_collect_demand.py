"""The last round of MIG on demand as the probe reads it."""

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from appliance.probe.ask import Ask
from appliance.probe.problems import Unreadable
from appliance.stages.mig import collect as mig_demand
from appliance.stages.mig.facts import MigDemand
from tests.support.probe_trees import grow

__all__ = ["grow"]


Grow = Callable[[dict[str, Any]], str]
HERE = {mig_demand.POLICY: "{}"}


def test_a_host_whose_gpus_are_not_divided_on_demand_has_nothing_to_tell(grow: Grow) -> None:
    assert mig_demand.collect(Ask({}, grow({"/etc/hostname": "gpu-1\n"}))) == {"mig_demand": None}


def test_a_round_is_read_with_its_age(grow: Grow) -> None:
    state = {"taken_at": time.time() - 30, "made": 3, "free": {"1g.10gb": 1}, "layouts": {}}
    tree = {**HERE, mig_demand.REPORT: json.dumps(state)}
    found = mig_demand.collect(Ask({}, grow(tree)))["mig_demand"]
    assert 29 <= found.pop("age_s") <= 120
    assert found == {"made": 3, "free": {"1g.10gb": 1}}
    assert MigDemand(age_s=1, **found).made == 3


def test_what_went_wrong_is_one_line_however_the_api_said_it(grow: Grow) -> None:
    state = {"taken_at": time.time(), "problem": "POST pods:\n  403 Forbidden\n"}
    tree = {**HERE, mig_demand.REPORT: json.dumps(state)}
    found = mig_demand.collect(Ask({}, grow(tree)))["mig_demand"]
    assert found["problem"] == "POST pods: 403 Forbidden"


@pytest.mark.parametrize("said", ["", "{", "[]", "{}", '{"taken_at": 1, "problem": 7}'])
def test_what_cannot_be_read_is_said(grow: Grow, said: str) -> None:
    with pytest.raises(Unreadable):
        mig_demand.collect(Ask({}, grow({**HERE, mig_demand.REPORT: said})))
