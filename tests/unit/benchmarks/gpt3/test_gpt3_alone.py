"""A published model trained by PyTorch alone, as the hosts have it: what is submitted, how it is judged, what is refused."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from appliance.benchmarks.gpt3 import recorded, train, trial
from appliance.benchmarks.gpt3.launch import STEPS
from appliance.benchmarks.gpt3.reference import load
from appliance.benchmarks.gpt3.trial import Framework, Request
from appliance.checks.check import View
from appliance.models.result import CheckResult, Status
from tests.support.command_line import run as command
from tests.support.facts import facts_of, gpus_of
from tests.support.gpt3_logs import megatron
from tests.support.gpt3_runs import FakeRemote, says, trained, view
from tests.support.gpt3_trials import GPU, steps_of
from tests.support.site_files import ready_site

ALONE = Request("126m", (1,), framework=Framework.PYTORCH)
HEAD = """model: 124475904 parameters on NVIDIA A100-SXM4-80GB, trained by PyTorch alone: 2.11.0
using world size: 8, seq_length: 2048, global_batch_size: 256, micro-batch 4
"""
PUBLISHED = 919_803
"""tokens/s of 126M on one host, bare metal."""


def seen_of(gpus: int = 8) -> View:
    """One GPU host, without a section for containers."""
    seen = view(1, simulated=False)
    host = seen.site.host("gpu-1")
    other = host.model_copy(update={"gpus": None if gpus == 8 else gpus})
    hosts = tuple(other if one.name == host.name else one for one in seen.site.hosts)
    told = {"gpu-1": facts_of("gpu-1", gpus=gpus_of(GPU, gpus))}
    return View(seen.profile, seen.site.model_copy(update={"hosts": hosts}), {**seen.facts, **told})


def log_of(tokens_per_s: float) -> str:
    return HEAD + megatron(steps_of(256 * 2048 / tokens_per_s), 256).decode()


def throughput(log: str, gpus: int = 8) -> CheckResult:
    results, _, _ = trained(seen_of(gpus), FakeRemote(says(log)), ALONE)
    return next(r for r in results if r.id == "gpt3.throughput")


def test_the_program_goes_to_every_gpu_and_no_container_is_asked_for() -> None:
    remote = FakeRemote(says(log_of(PUBLISHED)))
    trained(seen_of(2), remote, ALONE)
    argv = remote.steps[0]
    assert remote.sent == trial.SCRIPT.read_text().rstrip()
    assert {"--ntasks-per-node=2", "--gpus-per-node=2", "--exclusive", "--input=all"} <= set(argv)
    assert not [word for word in argv if "container" in word]
    assert "MASTER_PORT" not in remote.script.partition("<<")[0]


def test_its_shape_is_the_published_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["train.py", *trial.plain("126m")])
    args, gpt = train.options(), load().models["126m"]
    assert args.gpus
    assert (args.steps, args.global_batch, args.sequence) == (STEPS, gpt.global_batch, gpt.sequence)
    assert (args.layers, args.hidden, args.heads) == (gpt.layers, gpt.hidden, gpt.heads)
    assert args.vocabulary == gpt.embedding
    assert 4 * args.hidden == gpt.ffn


def test_what_reaches_the_published_figure_passes_and_says_what_trained_it() -> None:
    found = throughput(log_of(PUBLISHED))
    assert found.status is Status.PASS
    assert "(PyTorch alone)" in found.evidence
    assert "not in the log" not in found.evidence


def test_what_is_slower_is_no_fault_of_the_hosts_and_no_pass() -> None:
    found = throughput(log_of(PUBLISHED / 2))
    assert (found.status, found.required) == (Status.NOT_ASSESSED, True)
    assert found.cause.startswith("50.")
    assert "PyTorch alone does not have the kernels" in found.cause
    by_nemo = throughput(log_of(PUBLISHED / 2).replace("by PyTorch alone", "by NeMo"))
    assert by_nemo.status is Status.FAIL


def test_a_log_of_other_gpus_than_the_hosts_have_makes_no_figure() -> None:
    results, _, _ = trained(seen_of(2), FakeRemote(says(log_of(PUBLISHED))), ALONE)
    (error,) = (r for r in results if r.status is Status.ERROR)
    assert "ran on 8 GPUs, and 1 x 2 are 2" in error.cause


def test_its_log_given_later_is_judged_the_same(tmp_path: Path) -> None:
    log = tmp_path / "126m/bare-metal/1n.log"
    log.parent.mkdir(parents=True)
    log.write_text(log_of(PUBLISHED / 2))
    (tmp_path / "runs.yml").write_text("gpu: A100-SXM4-80GB\n")
    found = recorded.recording(tmp_path).results
    assert [r.status for r in found] == [Status.NOT_ASSESSED]


def test_its_log_lends_nothing_to_one_of_nemo_beside_it(tmp_path: Path) -> None:
    cell = tmp_path / "126m/bare-metal"
    cell.mkdir(parents=True)
    (cell / "1n-a.log").write_text(log_of(PUBLISHED * 0.7))
    (cell / "1n-b.log").write_text(log_of(PUBLISHED * 0.9).replace("by PyTorch alone", ""))
    (tmp_path / "runs.yml").write_text("gpu: A100-SXM4-80GB\n")
    found = recorded.recording(tmp_path).results
    assert [r.status for r in found] == [Status.NOT_ASSESSED, Status.FAIL]


def test_a_host_without_pytorch_owes_the_training_that_was_asked_for() -> None:
    answer = says("appliance: no torch on gpu-1: No module named 'torch'\n", 75)
    results, _, _ = trained(seen_of(), FakeRemote(answer), ALONE)
    assert [(r.status, r.required) for r in results] == [(Status.NOT_ASSESSED, True)]


def test_a_pytorch_that_sees_no_gpu_is_told_with_its_host() -> None:
    said = "appliance: no GPU 0 on gpu-1: PyTorch sees 0\n"
    ended = says(said, 2, "srun: error: gpu-1: task 0: Exited with exit code 2\n")
    (result,), _, _ = trained(seen_of(), FakeRemote(ended), ALONE)
    assert (result.status, result.required) == (Status.NOT_ASSESSED, True)
    assert result.cause == "no GPU 0 on gpu-1: PyTorch sees 0"
    assert "--check gpu" in result.fix
    assert all(word in result.fix for word in ("driver", "MIG"))


def too_old(_: str) -> None:
    raise RuntimeError("The NVIDIA driver on your system is too old\nmore")


@pytest.mark.parametrize(
    ("count", "said"),
    [(3, "PyTorch sees 3"), (4, "The NVIDIA driver on your system is too old")],
)
def test_a_rank_without_a_gpu_says_so(
    count: int, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["train.py", "--gpus"])
    cuda = SimpleNamespace(device_count=lambda: count, set_device=too_old)
    for name in ("torch", "torch.distributed"):
        monkeypatch.setitem(sys.modules, name, SimpleNamespace(cuda=cuda))
    for name, value in {"SLURM_PROCID": "3", "SLURM_NTASKS": "4", "SLURM_LOCALID": "3"}.items():
        monkeypatch.setenv(name, value)
    assert train.main() == 2
    told = capsys.readouterr().out
    assert told.startswith("appliance: no GPU 3 on ")
    assert told.endswith(f": {said}\n")


@pytest.mark.parametrize(
    ("task", "blamed"),
    [
        ("task 3: Exited with exit code 1", "rank 3 on gpu-1: CUDA error: uncorrectable ECC error"),
        ("task 2: Exited with exit code 1", "task 2 on gpu-1: Exited with exit code 1"),
        ("task 2: Killed", "task 2 on gpu-1: Killed"),
        ("", "rank 0 on gpu-1: Broken pipe"),
    ],
)
def test_a_rank_that_fails_by_itself_says_why(task: str, blamed: str) -> None:
    """The others may say what that did to them, and before it."""
    own = ("rank 0 on gpu-1: Broken pipe", "rank 3 on gpu-1: CUDA error: uncorrectable ECC error")
    said = "".join(f"appliance: {line}\n" for line in own)
    errors = f"srun: error: gpu-1: {task}\n" if task else ""
    (result,), _, _ = trained(seen_of(), FakeRemote(says(said, 1, errors)), ALONE)
    assert (result.status, result.cause) == (Status.ERROR, f"srun ended with 1: {blamed}")


class Work:
    """What a GPU has to do: it is through when asked for the third time, or never."""

    def __init__(self, *, ends: bool) -> None:
        self.ends, self.asked = ends, 0

    def record(self) -> None: ...

    def query(self) -> bool:
        self.asked += 1
        return self.ends and self.asked > 2


def test_a_rank_waits_for_its_gpu_and_not_for_ever() -> None:
    def torch(work: Work) -> SimpleNamespace:
        return SimpleNamespace(cuda=SimpleNamespace(Event=lambda: work))

    train.settle(torch(good := Work(ends=True)), 60)
    assert good.asked == 3
    with pytest.raises(RuntimeError, match=train.IN_VAIN):
        train.settle(torch(Work(ends=False)), 0.01)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "--framework needs a model to train: --model 126m"),
        (("--model", "cpu-3m"), "the small model is always trained with PyTorch alone"),
        (("--model", "5b"), "keeps all of 5b on each GPU, 75 GiB with its optimizer"),
        (("--model", "126m", "--through", "kubernetes"), "PyTorch alone trains only through Slurm"),
        (("--model", "126m", "--nodes", "3"), "is not divisible by 3 hosts of 8 GPUs"),
        (("--model", "126m", "--from-logs", "."), "--framework needs: appliance validate gpt3"),
        (("--model", "126m", "--render", "jobs"), "--framework needs: appliance validate gpt3"),
    ],
)
def test_what_it_does_not_train_is_refused_before_a_host_is_asked(
    words: tuple[str, ...],
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    site = ready_site(tmp_path / "site")
    where = () if "--render" in words else ("--site", str(site))
    asked = ("validate", "gpt3", *where, "--framework", "pytorch", *words)
    assert command(monkeypatch, *asked) == 2
    assert told in " ".join(capsys.readouterr().err.split())
    assert not list((site / "runs").glob("*/report.json"))


def refused(site: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    """What is said of a training of 126M by PyTorch alone; no report was made."""
    where = ("--site", str(site))
    asked = ("validate", "gpt3", "--model", "126m", "--framework", "pytorch", *where)
    assert command(monkeypatch, *asked) == 2
    assert not list((site / "runs").glob("*/report.json"))
    return " ".join(capsys.readouterr().err.split())


def test_hosts_over_whose_gpus_the_batch_never_divides_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing was trained, and the run ended 0."""
    site = ready_site(tmp_path / "site")
    given = (site / "site.yml").read_text()
    (site / "site.yml").write_text(given.replace("roles: [gpu]", "roles: [gpu], gpus: 6"))
    told = refused(site, monkeypatch, capsys)
    assert "is not divisible by hosts of 6 GPUs" in told


def test_a_site_whose_gpus_are_all_kubernetes_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing was trained, and the run ended 0."""
    site = ready_site(tmp_path / "site")
    (site / "theirs").touch(0o600)
    with (site / "site.yml").open("a") as file:
        file.write("kubernetes: {external: theirs}\n")
    told = refused(site, monkeypatch, capsys)
    assert "Slurm has no GPU host at site" in told
