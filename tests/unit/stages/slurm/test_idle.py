"""GPUs that are in use though Slurm runs no job on their host."""

from typing import Any

import pytest

from appliance.checks.check import View
from appliance.models.result import CheckResult, Status
from appliance.stages.slurm.facts import Slurm, SlurmNode
from tests.support.facts import facts_of, gpus_of
from tests.support.judging import said_by
from tests.support.profiles import profile_of
from tests.support.sites import site_of

GIB = 1 << 30


def judged(used: int | None, state: str = "idle", nodes: bool = True, **gpu: Any) -> CheckResult:
    found = gpus_of("NVIDIA A100-SXM4-80GB", 2)
    first, second = found.devices
    changed = first.model_copy(update={"memory_used": used, **gpu})
    quiet = second.model_copy(update={"memory_used": None if used is None else GIB // 2})
    gpus = found.model_copy(update={"devices": (changed, quiet)})
    slurm = Slurm(controller="up", nodes=(SlurmNode(name="gpu-1", state=state),) if nodes else None)
    seen = {"head": facts_of("head", slurm=slurm), "gpu-1": facts_of("gpu-1", gpus=gpus)}
    view = View(profile_of(), site_of("head", "gpu-1"), seen)
    (one,) = said_by("slurm.idle_gpus", view)
    return one


def test_idle_gpus_pass() -> None:
    assert judged(GIB // 2).status is Status.PASS


@pytest.mark.parametrize("state", ["idle", "idle+drain", "drained"])
def test_memory_without_a_job_fails(state: str) -> None:
    found = judged(60 * GIB, state, utilization=100, processes=2)
    assert (found.status, found.target) == (Status.FAIL, "gpu-1/GPU 0")
    assert found.cause == (
        "60 GiB of its memory are in use by 2 processes, and it is 100 % busy, and no job runs on gpu-1"
    )
    assert "nvidia-smi -i 0 lists the processes" in found.fix


@pytest.mark.parametrize("state", ["allocated", "mixed", "completing", "mixed+drain"])
def test_memory_of_a_job_is_no_finding(state: str) -> None:
    assert judged(60 * GIB, state).status is Status.PASS


def test_divided_gpus_are_left_out() -> None:
    assert judged(60 * GIB, mig_enabled=True).status is Status.PASS


def test_what_was_not_read_is_not_assessed() -> None:
    assert judged(None).status is Status.NOT_ASSESSED
    assert judged(60 * GIB, nodes=False).status is Status.NOT_ASSESSED
