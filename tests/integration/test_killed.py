"""A deployment that is killed or interrupted at any stage goes on with the next one, and repeats nothing."""

import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.rack import (
    Bench,
    Event,
    marked,
    raised,
    repeated,
    run_of,
    tasks_of,
)

pytestmark = [
    pytest.mark.rack,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning"),
]

# Stages that run side by side: the shortest first, so that none is finished before its turn.
STAGES = ("base", "fabric", "storage", "observe", "slurm", "validate")
MEMORY = Path("/dev/shm")


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with raised("pytest-killed", 3, tmp_path_factory.mktemp("killed")) as found:
        yield found


def _private_folders(run_id: str) -> list[Path]:
    return [p for p in MEMORY.glob("appliance-*") if run_id in p.name]


def _messages(events: list[Event]) -> str:
    return "\n".join(e["text"] for e in events if e["event"] == "message")


def _unfinished(bench: Bench, run_id: str) -> list[Event]:
    return bench.journal("run_finished", run_id)


@pytest.fixture(scope="module")
def killed(bench: Bench) -> list[str]:
    """Kills a deployment in each stage in turn; the runs' ids. Each must say of the one before it that it was cut off."""
    runs: list[str] = []
    for stage in STAGES:
        deployment = bench.deploy("--json")
        deployment.until(tasks_of(stage, 1 if stage == "validate" else 4))
        if stage == "validate":
            time.sleep(1.0)
        if runs:
            _look_back(deployment.events, runs[-1])
        deployment.send(signal.SIGKILL)
        assert deployment.end(10) == -signal.SIGKILL
        runs.append(run_of(deployment.events))
        assert bench.journal("host_started", runs[-1]) or stage == "validate"
        assert not _unfinished(bench, runs[-1])
    return runs


def _look_back(events: list[Event], before: str) -> None:
    assert f"run {before} was cut off" in _messages(events)
    assert marked(before) == []
    assert _private_folders(before) == []


def test_killed_in_every_stage_the_next_deployments_bring_it_to_its_end(
    bench: Bench, killed: list[str]
) -> None:
    deployment = bench.deploy("--json")
    assert deployment.end() == 0, deployment.tail
    _look_back(deployment.events, killed[-1])
    assert repeated(bench.journal()) == []
    stages = {e["stage"] for e in bench.journal("host_done")}
    assert stages == set(STAGES) - {"validate"}


def test_state_after_all_the_kills_is_the_one_of_an_undisturbed_deployment(
    bench: Bench, killed: list[str]
) -> None:
    deployment = bench.deploy("--json", "--full")
    assert deployment.end() == 0, deployment.tail
    run = run_of(deployment.events)
    changed = [(e["stage"], e["host"], e["task"]) for e in bench.journal("task_changed", run)]
    assert changed == []
    assert {e["changes"] for e in bench.journal("host_done", run)} == {0}


def test_second_deployment_is_refused_in_one_line_while_the_first_goes_on(
    bench: Bench, killed: list[str]
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
    bench: Bench, killed: list[str], stage: str
) -> None:
    deployment = bench.deploy("--json", "--stage", stage, "--full")
    deployment.until(tasks_of(stage, 1 if stage == "validate" else 4))
    began = time.monotonic()
    deployment.send(signal.SIGINT)
    assert deployment.end(15) == 130, deployment.tail
    assert time.monotonic() - began < 10
    run = run_of(deployment.events)
    assert marked(run) == []
    assert _private_folders(run) == []
    (finished,) = bench.journal("run_finished", run)
    assert finished["interrupted"]
    assert "next deploy continues" in _messages(deployment.events)
    assert "Traceback" not in deployment.text
    following = bench.deploy("--json")
    assert following.end() == 0, following.tail
    assert "was cut off" not in _messages(following.events)


def test_second_interrupt_ends_it_at_once(bench: Bench, killed: list[str]) -> None:
    """With a host that hangs, so that a clean stop has something to wait for."""
    deployment = bench.deploy("--json", "--stage", "base", "--full")
    deployment.until(tasks_of("base", 4))
    bench.hurt("gpu-2", "freeze")
    try:
        deployment.send(signal.SIGINT)
        time.sleep(0.5)
        deployment.send(signal.SIGINT)
        assert deployment.end(5) == 130, deployment.tail
    finally:
        bench.heal("gpu-2", "freeze")
    run = run_of(deployment.events)
    assert marked(run) == []
    assert "Traceback" not in deployment.text
    following = bench.deploy("--json")
    assert following.end() == 0, following.tail
