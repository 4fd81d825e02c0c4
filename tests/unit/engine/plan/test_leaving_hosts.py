"""A deployment does not end jobs on hosts that were taken out of the site."""

from types import SimpleNamespace
from typing import Any

import pytest

from appliance.checks.check import View
from appliance.engine.plan import leaving_hosts
from appliance.errors import ApplianceError
from appliance.stages.slurm.facts import Slurm, SlurmNode, SlurmPartition
from tests.support.facts import facts_of
from tests.support.profiles import profile_of
from tests.support.sites import site_of


def refuse(monkeypatch: pytest.MonkeyPatch, state: str, *stages: str, jobs: int | None = 0) -> None:
    nodes = (SlurmNode(name="gpu-1", state="idle"), SlurmNode(name="gpu-9", state=state))
    live = tuple(
        SlurmPartition(name=name, state="UP", jobs=jobs if name == "old" else 0)
        for name in ("gpu", "old")
    )
    head = facts_of("head", slurm=Slurm(controller="up", nodes=nodes, partitions=live))
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


def test_a_partition_that_leaves_with_jobs_ends_the_deployment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(ApplianceError, match="partition old is no longer in the site, but has 2 jobs") as caught:  # fmt: skip
        refuse(monkeypatch, "idle", "slurm", jobs=2)
    assert "list old in slurm.partitions, too" in caught.value.hint
    assert caught.value.hint.endswith("scancel --partition=old")
    refuse(monkeypatch, "idle", "base", jobs=2)


def test_a_partition_whose_jobs_are_unknown_ends_the_deployment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(ApplianceError, match="has jobs that cannot be counted"):
        refuse(monkeypatch, "idle", "slurm", jobs=None)
