"""appliance validate fio hpcc --through kubernetes: what cannot be carried is refused before a host is asked."""

from pathlib import Path

import pytest

from tests.command_line import run as command
from tests.site_files import ready_site


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["fio", "--through", "kubernetes,slurm"], "--through is slurm or kubernetes"),
        (
            ["fio", "dcgm", "--through", "kubernetes"],
            "goes with gpt3, nvbandwidth, gemm, nccl, fio, hpcc alone",
        ),
        (["dcgm", "--through", "kubernetes"], "--through goes with: appliance validate gpt3"),
        (["fio", "--through", "kubernetes", "--queue", "A b"], "the name of a queue of KAI"),
        (["fio", "--through", "kubernetes", "--image", "; rm"], "--image is written as"),
        (
            ["gpt3", "--through", "kubernetes", "--container-image", "a#b"],
            "goes with --through slurm, or with a model of GPUs",
        ),
        (["gpt3", "--through", "kubernetes"], "no GPU host of site mysite is Kubernetes'"),
        (
            ["gpt3", "--through", "kubernetes", "--container-mounts", "/a:/a"],
            "--container-mounts goes with --through slurm",
        ),
        (
            ["gpt3", "--model", "5b", "--through", "kubernetes", "--container-image", "a/b:1"],
            "no GPU host of site mysite is Kubernetes'",
        ),
        (["gpt3", "--through", "kubernetes", "--nodes", "2"], "Kubernetes has 0 GPU hosts"),
        (["--through", "kubernetes"], "no GPU host of site mysite is Kubernetes'"),
        (["--through", "ssh"], "--through goes with: appliance validate gpt3"),
        (["fio", "--queue", "team-a"], "--queue goes with --render"),
        (["fio", "--through", "kubernetes"], "no GPU host of site mysite is Kubernetes'"),
    ],
)
def test_what_cannot_be_carried_is_refused(
    words: list[str],
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    site = ready_site(tmp_path / "site")
    assert command(monkeypatch, "validate", *words, "--inventory", str(site)) == 2
    assert told in " ".join(capsys.readouterr().err.split())
