"""appliance validate fio hpcc --through kubernetes: what cannot be carried is refused before a host is asked."""

from pathlib import Path
from typing import Any

import pytest

from appliance.acceptance.sandbox import PLAIN
from appliance.actions.benchmarks import validate as action
from appliance.actions.benchmarks.through_pods import trial_image
from appliance.actions.sites.opening import Target
from appliance.benchmarks import BENCHMARKS
from appliance.cli import options, pods_trial
from appliance.config.new_secrets import CLUSTER_KEY, write_secrets
from appliance.errors import ConfigError
from appliance.lab import spec
from tests.support.command_line import run as command
from tests.support.site_files import ready_site


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["fio", "--through", "kubernetes,slurm"], "write slurm or kubernetes"),
        (
            ["fio", "storage", "--through", "kubernetes"],
            "supports only gpt3, dcgm, nvbandwidth, gemm, nccl, perftest, fio, hpcc, burnin",
        ),
        (
            ["storage", "--through", "kubernetes"],
            "--through needs: appliance validate gpt3 or dcgm",
        ),
        (["fio", "--through", "kubernetes", "--queue", "A b"], "not a valid name of a KAI queue"),
        (["fio", "--through", "kubernetes", "--image", "; rm"], "--image: write it as"),
        (
            ["gpt3", "--through", "kubernetes", "--container-image", "a#b"],
            "needs --through slurm, or a model for GPUs",
        ),
        (["gpt3", "--through", "kubernetes"], "site mysite has no GPU host that Kubernetes owns"),
        (
            ["gpt3", "--through", "kubernetes", "--container-mounts", "/a:/a"],
            "--container-mounts needs --through slurm",
        ),
        (
            ["gpt3", "--model", "5b", "--through", "kubernetes", "--container-image", "a/b:1"],
            "site mysite has no GPU host that Kubernetes owns",
        ),
        (["gpt3", "--through", "kubernetes", "--nodes", "2"], "Kubernetes has 0 GPU hosts"),
        (["--through", "kubernetes"], "site mysite has no GPU host that Kubernetes owns"),
        (["--through", "ssh"], "'ssh' is not one of 'slurm', 'kubernetes'"),
        (["fio", "--queue", "team-a"], "--queue needs --through kubernetes"),
        (["fio", "--through", "kubernetes"], "site mysite has no GPU host that Kubernetes owns"),
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
    assert command(monkeypatch, "validate", *words, "--site", str(site)) == 2
    assert told in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("way", ["slurm", "kubernetes"])
def test_what_the_bare_command_leaves_out_has_a_reason(way: str) -> None:
    """A benchmark that is new is either run or said to be left out."""
    left = [name for names in pods_trial.LEFT_OUT[way] for name in names]
    assert sorted([*pods_trial.WITHOUT_GPU[way], *left]) == sorted(b.name for b in BENCHMARKS)


@pytest.mark.parametrize(
    ("words", "names", "told"),
    [
        (
            ["--through", "slurm"],
            ("storage", "slurm", "gpt3", "gemm", "fio", "hpcc"),
            "skipped because no benchmark was named: dcgm, nvbandwidth, nccl, burnin (need GPUs)",
        ),
        (["fio"], ("fio",), ""),
        ([], (), ""),
    ],
)
def test_the_bare_command_says_what_it_leaves_out(
    words: list[str],
    names: tuple[str, ...],
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given: list[Any] = []

    def noted(*arguments: Any) -> None:
        given.extend(arguments)
        raise ConfigError("far enough", "")

    monkeypatch.setattr(action, "validate", noted)
    site = ready_site(tmp_path / "site")
    assert command(monkeypatch, "validate", *words, "--site", str(site)) == 2
    assert given[1] == names
    assert list(given[-1][:1]) == ([told] if told else [])


@pytest.mark.parametrize("chosen", ["", "mine/busybox:1"])
def test_pods_run_in_the_image_of_the_site(chosen: str, tmp_path: Path) -> None:
    folder = ready_site(tmp_path / "site")
    write_secrets(folder / "secrets", slurm=False, kubernetes=True)
    site = folder / "site.yml"
    line = f", trial_image: {chosen}" if chosen else ""
    cluster = f'kubernetes: {{version: "1.35", source: /opt/source, device_plugin: own{line}}}\n'
    key = f"  {CLUSTER_KEY}: {{file: secrets/{CLUSTER_KEY}}}\n"
    site.write_text(site.read_text() + key + cluster)
    assert trial_image(Target(site, None), options.quiet()) == (chosen or PLAIN)


def test_without_a_site_pods_run_in_busybox_by_its_digest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(spec, "load", lambda _: None)
    assert trial_image(Target(None, None), options.quiet()) == PLAIN
