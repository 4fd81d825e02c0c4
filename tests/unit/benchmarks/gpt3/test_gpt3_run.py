"""Training through Slurm: what is submitted, how answers are judged, and what happens when none comes."""

import re
import shutil
import socket
import sys
from types import SimpleNamespace

import pytest

from appliance.benchmarks.gpt3 import train, trial
from appliance.checks.check import View
from appliance.models.result import Status
from appliance.stages.kubernetes.site import KubernetesOptions
from tests.support.gpt3_runs import GOOD, IMAGE, FakeRemote, losses, says, trained, view


@pytest.mark.parametrize(
    ("hosts", "sizes"),
    [(1, ["1"]), (3, ["1", "2"]), (4, ["1", "2", "4"]), (16, ["1", "2", "4", "8"])],
)
def test_it_trains_on_every_power_of_two_of_hosts_that_divides_the_batch(
    hosts: int, sizes: list[str]
) -> None:
    remote = FakeRemote(says(GOOD))
    results, measured, tables = trained(view(hosts), remote)
    nodes = [a.removeprefix("--nodes=") for argv in remote.steps for a in argv if "--nodes=" in a]
    assert nodes == sizes
    assert losses(results) == [Status.PASS] * len(sizes)
    assert len(measured) == len(sizes)
    assert tables[0].columns[1] == "1 node"


def test_the_script_goes_over_standard_input_to_every_task() -> None:
    remote = FakeRemote(says(GOOD))
    trained(view(1), remote)
    assert remote.sent == trial.SCRIPT.read_text().rstrip()
    assert {"--input=all", "--ntasks-per-node=1", "--partition=gpu"} <= set(remote.steps[0])


def test_on_the_rack_the_figures_are_shown_and_gate_nothing() -> None:
    results, measured, _ = trained(view(2), FakeRemote(says(GOOD)))
    shown = [r for r in results if r.id != "gpt3.loss"]
    assert {r.status for r in shown} == {Status.NOT_ASSESSED}
    assert all(r.simulated and not r.required and r.value for r in shown)
    assert measured[0].value == pytest.approx(20 * 32 / 20 * 8 / 0.5 / 1, rel=0.01)
    assert measured[0].detail["gpus"] == 0


def test_on_real_gpu_hosts_training_on_processors_says_nothing_of_throughput() -> None:
    results, _, _ = trained(view(1, simulated=False), FakeRemote(says(GOOD)))
    shown = next(r for r in results if r.id == "gpt3.throughput")
    assert (shown.status, shown.required) == (Status.NOT_ASSESSED, False)
    assert not shown.simulated
    assert "but no GPU" in shown.cause


@pytest.mark.parametrize("simulated", [True, False])
def test_where_slurm_has_no_host_nothing_is_trained(
    simulated: bool,
) -> None:
    seen, remote = view(2, simulated), FakeRemote(says(GOOD))
    cluster = seen.site.model_copy(update={"kubernetes": KubernetesOptions()})
    (result,), measured, _ = trained(View(seen.profile, cluster, seen.facts), remote)
    assert (result.status, result.required) == (Status.NOT_ASSESSED, False)
    assert "Kubernetes owns every GPU host" in result.cause
    assert (remote.asked, measured) == ([], [])


def test_a_loss_that_does_not_fall_fails() -> None:
    level = re.sub(r"lm loss: \S+", "lm loss: 7.9E+00", GOOD)
    results, _, _ = trained(view(1), FakeRemote(says(level)))
    assert losses(results) == [Status.FAIL]


def test_a_loss_that_is_nan_fails() -> None:
    broken = GOOD.replace("lm loss: 6.100000E+00", "lm loss: nan")
    assert broken != GOOD
    results, _, _ = trained(view(1), FakeRemote(says(broken)))
    assert losses(results) == [Status.FAIL]
    assert "diverged" in results[0].cause


def test_a_run_that_ends_early_is_an_error_and_no_larger_one_is_tried() -> None:
    remote = FakeRemote(says("\n".join(GOOD.splitlines()[:11]) + "\n"))
    results, _, _ = trained(view(1), remote)
    assert losses(results) == [Status.ERROR]
    short = FakeRemote(says("\n".join(GOOD.splitlines()[:8]) + "\n"))
    trained(view(2), short)
    assert len(short.steps) == 1


def test_missing_torch_is_not_assessed_and_says_where_to_get_it() -> None:
    answer = says("appliance: no torch on gpu-1: No module named 'torch'\n", 75)
    results, _, _ = trained(view(2), FakeRemote(answer))
    assert losses(results) == [Status.NOT_ASSESSED]
    assert not results[0].required
    assert "gpu-1" in results[0].cause
    assert "python3-torch" in results[0].fix


def test_a_failing_srun_is_an_error_with_its_last_words() -> None:
    answer = says("", 1, "srun: error: x\nsrun: error: Invalid account\n")
    results, measured, _ = trained(view(2), FakeRemote(answer))
    assert losses(results) == [Status.ERROR]
    assert "Invalid account" in results[0].cause
    assert measured == []


@pytest.mark.parametrize(
    ("errors", "blamed"),
    [
        (
            "srun: error: gpu-1: task 0: Exited with exit code 1\n",
            "rank 1 on gpu-2 does not respond",
        ),
        ("srun: error: gpu-2: task 1: Killed\n", "task 1 on gpu-2: Killed"),
        ("", "rank 1 on gpu-2 does not respond"),
    ],
)
def test_a_rank_that_hangs_is_named_by_those_that_wait_and_a_killed_one_by_srun(
    errors: str, blamed: str
) -> None:
    said = "appliance: rank 1 on gpu-2 does not respond\n[gloo] Timed out\n"
    results, _, _ = trained(view(2), FakeRemote(says(said, 1, errors)))
    assert results[0].cause == f"srun ended with 1: {blamed}"


def test_a_rank_that_never_came_is_named_by_its_number() -> None:
    said = says("appliance: rank 1 never started\nTraceback\n", 1, "x: task 0: Exited with\n")
    results, _, _ = trained(view(2), FakeRemote(said))
    assert results[0].cause == "srun ended with 1: rank 1 never started"


def test_who_does_not_come_is_told_by_those_that_wait(capsys: pytest.CaptureFixture[str]) -> None:
    class Waiting(Store):
        def get(self, key: str) -> bytes:
            if key not in self.left:
                raise RuntimeError("Socket Timeout")
            return super().get(key)

    with pytest.raises(RuntimeError, match="Socket Timeout"):
        train.Ranks(Waiting({"host-1": "gpu-2"}), 0, 3)
    assert capsys.readouterr().out == "appliance: rank 2 never started\n"


class Store:
    """What ranks leave for each other where they meet."""

    def __init__(self, left: dict[str, str], deaf: bool = False) -> None:
        self.left, self.deaf = left, deaf

    def set(self, key: str, value: str) -> None:
        self.left[key] = value

    def get(self, key: str) -> bytes:
        return self.left[key].encode()

    def add(self, key: str, amount: int) -> int:
        if self.deaf:
            raise RuntimeError("Broken pipe")
        self.left[key] = str(int(self.left.get(key, 0)) + amount)
        return int(self.left[key])

    def set_timeout(self, _: object) -> None: ...


@pytest.mark.parametrize(
    ("more", "deaf", "error", "named"),
    [
        ({}, False, "[gloo/pair.cc] Timed out", ["rank 0 on gpu-1", "rank 2 on gpu-3"]),
        ({"waited-0": "1"}, False, "[gloo/pair.cc] Timed out", ["rank 2 on gpu-3"]),
        ({"waited-0": "1", "waited-2": "1"}, False, "[gloo/pair.cc] Timed out", []),
        ({}, True, "[gloo/pair.cc] Connection closed by peer", ["rank 0 on gpu-1"]),
        ({"waited-0": "1"}, False, f"{train.IN_VAIN} for 300 s", ["rank 2 on gpu-3"]),
        ({}, False, "out of memory", []),
    ],
)
def test_a_rank_that_waits_in_vain_names_those_that_say_nothing(
    more: dict[str, str],
    deaf: bool,
    error: str,
    named: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(train, "GIVE_UP", 0)
    monkeypatch.setattr(sys, "argv", ["train.py"])
    for name in ("torch", "torch.distributed"):
        monkeypatch.setitem(sys.modules, name, SimpleNamespace(set_num_threads=int))
    for name, value in {"RANK": "1", "WORLD_SIZE": "4", "NODE_NAME": "gpu-2"}.items():
        monkeypatch.setenv(name, value)
    for name in ("SLURM_PROCID", "SLURM_NTASKS", "SLURMD_NODENAME"):
        monkeypatch.delenv(name, raising=False)
    store = Store(
        {"host-0": "gpu-1", "host-2": "gpu-3", "host-3": "x", "waited-3": "1"} | more, deaf
    )
    monkeypatch.setattr(train, "rendezvous", lambda *_: train.Ranks(store, 1, 4))

    def fails(*_: object) -> None:
        raise RuntimeError(error)

    monkeypatch.setattr(train, "train", fails)
    assert train.main() == 1
    said = capsys.readouterr().out.splitlines()
    ended = [] if "gloo" in error or "NCCL" in error else [f"appliance: rank 1 on gpu-2: {error}"]
    assert said[:-1] == ended + [f"appliance: {name} does not respond" for name in named]
    assert said[-1] == error
    assert store.left["host-1"] == "gpu-2"


def test_a_job_that_never_starts_is_cancelled_and_its_reason_told() -> None:
    remote = FakeRemote(says(GOOD), held="PENDING (Resources)")
    results, _, _ = trained(view(2), remote)
    assert losses(results) == [Status.ERROR]
    assert "PENDING (Resources)" in results[0].cause
    name = next(a for a in remote.steps[0] if a.startswith("--job-name=")).partition("=")[2]
    assert remote.asked[-1] == ("scancel", f"--name={name}")


@pytest.mark.parametrize("slurm", ["", "down"])
def test_without_slurm_nothing_is_submitted(slurm: str) -> None:
    remote = FakeRemote(says(GOOD))
    results, _, _ = trained(view(1, slurm=slurm), remote)
    assert losses(results) == [Status.NOT_ASSESSED]
    assert remote.asked == []


def test_in_a_container_srun_is_told_which_and_the_result_names_it() -> None:
    remote = FakeRemote(says(GOOD))
    results, _, _ = trained(view(1, container=IMAGE), remote)
    argv = remote.steps[0]
    assert "--container-image=nvcr.io#nvidia/pytorch:26.01-py3" in argv
    assert "--container-mounts=/data:/data,/a:/b:ro" in argv
    assert argv.index("python3") > argv.index("--container-mounts=/data:/data,/a:/b:ro")
    assert "in nvcr.io#nvidia/pytorch:26.01-py3" in results[0].evidence


def test_without_one_no_job_asks_for_a_container() -> None:
    remote = FakeRemote(says(GOOD))
    trained(view(1), remote)
    assert not [word for word in remote.steps[0] if "container" in word]


def test_what_goes_wrong_in_a_container_leads_to_the_image_or_to_pyxis() -> None:
    seen = view(1, container=IMAGE)
    torchless = says("appliance: no torch on gpu-1: No module named 'torch'\n", 75)
    results, _, _ = trained(seen, FakeRemote(torchless))
    assert results[0].fix == f"choose an image with PyTorch: {IMAGE.image} has none"
    unknown = says("", 1, "srun: unrecognized option '--container-image'\n")
    results, _, _ = trained(seen, FakeRemote(unknown))
    assert "--check slurm.pyxis" in results[0].fix

    remote = FakeRemote(says(GOOD), held="RUNNING (None)")
    results, _, _ = trained(seen, remote)
    assert f"srun --container-image={IMAGE.image} true" in results[0].fix


@pytest.mark.parametrize(
    ("nodes", "first"),
    [
        ("gpu-1", "gpu-1"),
        ("gpu-[02-04,7]", "gpu-02"),
        ("gpu-[1,3]-a,head", "gpu-1-a"),
        ("head,gpu-[1-2]", "head"),
    ],
)
def test_a_container_without_slurms_programs_finds_the_first_host(
    nodes: str, first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    addresses = {first: "10.0.0.21"}
    monkeypatch.delenv("MASTER_ADDR", raising=False)
    monkeypatch.setenv("SLURM_STEP_NODELIST", nodes)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(socket, "gethostbyname", addresses.__getitem__)
    assert train.master_address() == "10.0.0.21"
    addresses[first] = "127.0.1.1"
    monkeypatch.setenv("SLURM_LAUNCH_NODE_IPADDR", "10.0.0.10")
    monkeypatch.setattr(train, "own_address", lambda towards: f"that towards {towards}")
    assert train.master_address() == "that towards 10.0.0.10"
