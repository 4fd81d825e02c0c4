"""A deployment does not end jobs on hosts that were taken out of the site."""

from types import SimpleNamespace
from typing import Any

import pytest

from appliance.checks.check import View
from appliance.engine.plan import leaving_hosts
from appliance.errors import ApplianceError
from appliance.stages.slurm.facts import Slurm, SlurmNode
from tests.support.facts import facts_of
from tests.support.profiles import profile_of
from tests.support.sites import site_of


def refuse(monkeypatch: pytest.MonkeyPatch, state: str, *stages: str) -> None:
    nodes = (SlurmNode(name="gpu-1", state="idle"), SlurmNode(name="gpu-9", state=state))
    head = facts_of("head", slurm=Slurm(controller="up", nodes=nodes))
    view = View(profile_of(), site_of("head", "gpu-1"), {"head": head})
    monkeypatch.setattr(leaving_hosts, "view_of", lambda session, found: view)
    nothing: Any = None
    plan: Any = SimpleNamespace(pending=lambda: [SimpleNamespace(stage=name) for name in stages])
    leaving_hosts.refuse_leaving(nothing, nothing, plan)


def test_a_node_that_leaves_with_jobs_ends_the_deployment(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ApplianceError, match="still runs jobs: gpu-9") as caught:
        refuse(monkeypatch, "mixed", "base", "slurm")
    assert "scontrol update nodename=gpu-9 state=drain" in caught.value.hint


def test_one_without_jobs_or_a_run_without_slurm_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse(monkeypatch, "idle", "slurm")
    refuse(monkeypatch, "drained", "slurm")
    refuse(monkeypatch, "mixed", "base")
