"""A deployment that is killed or interrupted at any stage goes on with the next one, and repeats nothing."""

import re
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from appliance.lab.spec import RackSpec
from tests.integration.rack import (
    Bench,
    Deployment,
    Event,
    Identity,
    at_work,
    own_name,
    private_folders,
    raised,
    repeated,
    run_of,
    survivors,
    tasks_of,
)

pytestmark = [
    pytest.mark.rack,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning"),
]

# Stages that run side by side: the shortest first, so that none is finished before its turn.
STAGES = ("base", "gpu", "fabric", "storage", "observe", "slurm", "validate")


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with raised(RackSpec(own_name("killed"), 3), tmp_path_factory.mktemp("killed"), Bench) as found:
        yield found


def _messages(events: list[Event]) -> str:
    return "\n".join(e["text"] for e in events if e["event"] == "message")


@dataclass(frozen=True)
class Killed:
    """A run that was killed, the stage it was in, and the processes that worked for it at that moment."""

    run: str
    stage: str
    workers: set[Identity]


@pytest.fixture(scope="module")
def killed(bench: Bench) -> list[Killed]:
    """Kills a deployment in each stage in turn; each must have cleared up after the one before it.

    Stages run side by side, so a quick one may be done before its turn: the deployment then dies in validate.
    """
    runs: list[Killed] = []
    for wanted in STAGES:
        deployment = bench.deploy("--json")
        stage = _reached(deployment, wanted)
        if stage != "validate":
            time.sleep(1.0)
        if runs:
            _look_back(bench, deployment, runs[-1])
        workers = at_work(bench, deployment)
        deployment.send(signal.SIGKILL)
        assert deployment.end(10) == -signal.SIGKILL
        runs.append(Killed(run_of(deployment.events), stage, workers))
        assert workers or stage == "validate"
        assert bench.journal("run_finished", runs[-1].run) == []
        assert bench.journal("host_started", runs[-1].run) or stage == "validate"
    assert len({killed.stage for killed in runs}) >= len(STAGES) - 2
    return runs


def _reached(deployment: Deployment, wanted: str) -> str:
    """The stage a deployment is in: the wanted one, or validate where nothing was left of that one."""
    of_wanted, of_validate = tasks_of(wanted), tasks_of("validate")
    deployment.until(lambda events: of_wanted(events) or of_validate(events))
    return wanted if of_wanted(deployment.events) else "validate"


def _look_back(bench: Bench, deployment: Deployment, before: Killed) -> None:
    assert f"run {before.run} was interrupted" in _messages(deployment.events)
    assert survivors(before.workers) == []


def test_killed_in_each_of_these_stages_the_next_deployments_bring_it_to_its_end(
    bench: Bench, killed: list[Killed]
) -> None:
    deployment = bench.deploy("--json")
    assert deployment.end() == 0, deployment.tail
    _look_back(bench, deployment, killed[-1])
    assert repeated(bench.journal()) == []
    stages = {e["stage"] for e in bench.journal("host_done")}
    assert stages == {*STAGES} - {"validate"}
    assert private_folders(bench) == []


def test_state_after_all_the_kills_is_the_one_of_an_undisturbed_deployment(
    bench: Bench, killed: list[Killed]
) -> None:
    deployment = bench.deploy("--json", "--full")
    assert deployment.end() == 0, deployment.tail
    run = run_of(deployment.events)
    changed = [(e["stage"], e["host"], e["task"]) for e in bench.journal("task_changed", run)]
    assert changed == []
    assert {e["changes"] for e in bench.journal("host_done", run)} == {0}


def test_second_deployment_is_refused_in_one_line_while_the_first_goes_on(
    bench: Bench, killed: list[Killed]
) -> None:
    first = bench.deploy("--json", "--stage", "base", "--full")
    first.until(tasks_of("base"))
    second = bench.deploy()
    assert second.end(20) == 1
    said = second.text.strip().splitlines()
    assert re.search(rf"run {run_of(first.events)} \(deploy, process {first.pid} since", said[0])
    assert len(said) == 2
    assert said[1].startswith("  fix: ")
    assert first.end() == 0, first.tail


@pytest.mark.parametrize("stage", ["slurm", "validate"])
def test_interrupt_stops_cleanly_and_the_next_deployment_goes_on(
    bench: Bench, killed: list[Killed], stage: str
) -> None:
    deployment = bench.deploy("--json", "--stage", stage, "--full")
    deployment.until(tasks_of(stage))
    workers = at_work(bench, deployment)
    began = time.monotonic()
    deployment.send(signal.SIGINT)
    assert deployment.end(15) == 130, deployment.tail
    assert time.monotonic() - began < 10
    run = run_of(deployment.events)
    assert survivors(workers) == []
    assert private_folders(bench) == []
    (finished,) = bench.journal("run_finished", run)
    assert finished["interrupted"]
    assert "next deploy continues" in _messages(deployment.events)
    assert "Traceback" not in deployment.text
    following = bench.deploy("--json")
    assert following.end() == 0, following.tail
    assert "was interrupted" not in _messages(following.events)


def test_second_interrupt_ends_it_at_once(bench: Bench, killed: list[Killed]) -> None:
    """With a host that hangs, so that a clean stop has something to wait for."""
    deployment = bench.deploy("--json", "--stage", "base", "--full")
    deployment.until(tasks_of("base"))
    bench.hurt("gpu-2", "freeze")
    workers = at_work(bench, deployment)
    try:
        deployment.send(signal.SIGINT)
        time.sleep(0.5)
        deployment.send(signal.SIGINT)
        assert deployment.end(5) == 130, deployment.tail
    finally:
        bench.heal("gpu-2", "freeze")
    assert survivors(workers) == []
    assert private_folders(bench) == []
    assert "Traceback" not in deployment.text
    following = bench.deploy("--json")
    assert following.end() == 0, following.tail
