"""A training that is asked for: the same start, bound, end and reading for the small model and those on GPUs."""

from pathlib import Path

import pytest

from appliance.benchmarks.batch import Job, JobLeft
from appliance.benchmarks.gpt3 import launch, run
from appliance.benchmarks.gpt3.trial import Request, died
from appliance.models.result import Status
from tests.support.command_line import run as command
from tests.support.gpt3_logs import megatron
from tests.support.gpt3_runs import GOOD, IMAGE, FakeRemote, Patient, losses, says, trained, view
from tests.support.gpt3_trials import log_of, real, steps_of
from tests.support.site_files import ready_site

FIVE = Request("5b", (1,))


def test_a_training_on_gpus_is_started_as_its_job_file_says() -> None:
    remote = FakeRemote(says(log_of(85.7)))
    trained(real(2), remote, Request("5b", (2,)))
    argv = remote.steps[0]
    assert remote.sent == ""
    assert {"--nodes=2", "--ntasks-per-node=8", "--gpus-per-node=8", "--exclusive"} <= set(argv)
    assert f"--container-image={IMAGE.image}" in argv
    wanted = launch.arguments(launch.Training("5b", 2, "", ""))
    assert argv[-len(wanted) :] == wanted
    by_hand = launch.slurm(launch.Training("5b", 2, "", ""))
    exported = [line for line in by_hand.splitlines() if line.startswith("export ")]
    assert (
        exported == [line for line in remote.script.splitlines() if line.startswith("export ")][1:]
    )


def test_without_a_choice_of_the_site_it_runs_in_nemos_container() -> None:
    remote = FakeRemote(says(log_of(85.7)))
    trained(view(1), remote, FIVE)
    assert "--container-image=nvcr.io#nvidia/nemo:24.03.01.framework" in remote.steps[0]


@pytest.mark.parametrize(("seconds", "status"), [(85.7, Status.PASS), (95.0, Status.FAIL)])
def test_its_figures_are_judged_by_the_published_ones(seconds: float, status: Status) -> None:
    outcome = run.run(real(), FakeRemote(says(log_of(seconds))), FIVE, book=Patient())
    found = {r.id: r for r in outcome.results}
    assert found["gpt3.loss"].status is Status.PASS
    assert found["gpt3.throughput"].status is status
    assert found["gpt3.throughput"].target == "cluster/5b bare-metal 1n"
    assert [(raw.name, raw.part) for raw in outcome.raw] == [("5b-1n.log", "5b")]


def test_a_log_of_another_batch_passes_nothing() -> None:
    other = megatron(steps_of(85.7), 1024).decode()
    results, _, _ = trained(real(), FakeRemote(says(other)), FIVE)
    assert Status.PASS not in {r.status for r in results if r.id == "gpt3.throughput"}


def test_a_training_that_ends_early_has_an_error_beside_its_figure() -> None:
    short = "\n".join(log_of(85.7).splitlines()[:20]) + "\n"
    results, _, _ = trained(real(), FakeRemote(says(short)), FIVE)
    assert losses(results) == [Status.ERROR]
    assert "of 50 steps printed" in results[0].cause


def test_the_small_model_trains_on_the_numbers_of_hosts_that_are_asked_for() -> None:
    remote = FakeRemote(says(GOOD))
    trained(view(3), remote, Request(nodes=(2,)))
    assert [a for argv in remote.steps for a in argv if a.startswith("--nodes=")] == ["--nodes=2"]


KILLED = """srun: error: gpu-1: task 0: Exited with exit code 1
srun: error: gpu-2: task 1: Killed
"""


@pytest.mark.parametrize(
    ("errors", "told"),
    [
        (KILLED, "task 1 on gpu-2: Killed"),
        ("srun: error: gpu-2: tasks 8-15: Out Of Memory\n", "task 8-15 on gpu-2: Out Of Memory"),
        (
            "srun: error: gpu-1: task 0: Terminated\nsrun: error: gpu-2: task 1: Exited with exit code 2\n",
            "task 1 on gpu-2: Exited with exit code 2",
        ),
        ("srun: error: gpu-1: task 0: Terminated\n", "task 0 on gpu-1: Terminated"),
        ("srun: error: Unable to allocate resources: Invalid account\n", ""),
        ("", ""),
    ],
)
def test_the_rank_that_died_first_by_itself_is_named(errors: str, told: str) -> None:
    assert died(errors) == told


def test_a_rank_that_dies_is_the_reason_and_no_larger_training_is_tried() -> None:
    remote = FakeRemote(says("", 137, KILLED))
    results, measured, _ = trained(real(2), remote, Request("5b", (1, 2)))
    assert losses(results) == [Status.ERROR]
    assert results[0].cause == "srun ended with 137: task 1 on gpu-2: Killed"
    assert measured == []


def test_a_training_that_is_stuck_is_cancelled() -> None:
    remote = FakeRemote(says(""), held="RUNNING (None)")
    results, _, _ = trained(real(), remote, FIVE)
    assert "not done within 7200 s; the job was RUNNING" in results[0].cause
    assert remote.asked[-1][0] == "scancel"


def test_a_training_that_another_run_has_at_work_is_waited_for_first() -> None:
    class Other(Patient):
        def left(self) -> tuple[JobLeft, ...]:
            job = Job(key="5b 1n", name="x", control="head", until=1.0, id="17")
            return (JobLeft("r1", job, "appliance validate --resume r1"),)

    remote = FakeRemote(says(log_of(85.7)))
    (result,) = run.run(real(), remote, FIVE, book=Other()).results
    assert (result.status, result.required) == (Status.NOT_ASSESSED, True)
    assert result.fix == "appliance validate --resume r1"
    assert remote.asked == []
    small = run.run(view(1), FakeRemote(says(GOOD)), book=Other()).results
    assert losses(list(small)) == [Status.PASS]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--resume", "r1", "--nodes", "2"], "--resume is given without a name"),
        (["--through", "ssh"], "write slurm or kubernetes"),
        (["--nodes", "0"], "write numbers such as 1,2,4"),
        (["--nodes", "3"], "is not divisible by 3 hosts"),
        (["--nodes", "8"], "--nodes 8: Slurm has 4 GPU hosts"),
        (["--model", "7b"], "unknown model: 7b"),
        (["--model", "5b"], "has no section slurm.containers"),
        (["--queue", "team"], "--queue needs --through kubernetes"),
    ],
)
def test_what_the_site_cannot_carry_is_refused_before_a_host_is_asked(
    words: list[str],
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    site = ready_site(tmp_path / "site")
    assert command(monkeypatch, "validate", "gpt3", "--site", str(site), *words) == 2
    assert told in " ".join(capsys.readouterr().err.split())
    assert not list((site / "runs").glob("*/report.json"))


def test_simulated_gpus_train_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    site = ready_site(tmp_path / "site")
    with (site / "site.yml").open("a") as file:
        file.write("simulated: [gpu]\n")
    words = ("validate", "gpt3", "--site", str(site), "--model", "5b")
    assert command(monkeypatch, *words) == 2
    assert "the GPUs of site mysite are simulated" in " ".join(capsys.readouterr().err.split())


def test_a_run_that_nobody_knows_cannot_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    site = ready_site(tmp_path / "site")
    assert command(monkeypatch, "validate", "--resume", "r1", "--site", str(site)) == 2
    assert "there is no run r1" in capsys.readouterr().err
