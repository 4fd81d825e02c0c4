"""appliance validate scheduler: a verdict for each promise, and the exit code of all."""

import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from appliance.acceptance.sandbox import Settings
from appliance.acceptance.trial import run
from appliance.actions.trials import scheduler as action
from appliance.adapters.prometheus import Prometheus
from appliance.cli.main import cli
from appliance.errors import ConfigError
from tests.support.clusters import FOUR_HOSTS, ONE_HOST, Cluster
from tests.support.kai_like import KaiLike

QUICK = Settings(gpu_image="pytorch", patience=30.0, quiet=9.0)


def tried(monkeypatch: pytest.MonkeyPatch, cluster: Cluster, *flags: str) -> tuple[int, str]:
    """Exit code and output of the verb on a cluster in memory."""
    verdicts = run(cluster, cluster, QUICK, series=cluster.series)
    monkeypatch.setattr(action, "prove", lambda *_: verdicts)
    argv = ["validate", "scheduler", "--kubeconfig", "admin.conf", *flags]
    done = CliRunner().invoke(cli, argv, standalone_mode=False)
    assert done.exception is None
    return int(done.return_value), done.stdout


def test_all_kept_ends_with_0_and_says_how_many(monkeypatch: pytest.MonkeyPatch) -> None:
    code, said = tried(monkeypatch, KaiLike())
    assert code == 0
    assert "PASSED: 16 of 16 promises kept" in said


def test_a_broken_promise_ends_with_1_cause_and_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    code, said = tried(monkeypatch, KaiLike(FOUR_HOSTS, "gangs in parts"))
    assert code == 1
    assert "7 of 8 pods were placed although not all could be" in said.replace("\n", " ")
    assert "podgroups" in said


def test_what_cannot_be_shown_ends_with_3_and_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    code, said = tried(monkeypatch, KaiLike(ONE_HOST), "--json")
    assert code == 3
    document = json.loads(said)
    assert document["verdict"] == "incomplete"
    causes = {r["id"]: r["cause"] for r in document["results"]}
    assert causes["scheduler.packing"] == "needs 2 GPU hosts, the cluster has 1"


def test_scheduler_is_tried_alone_and_needs_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    with pytest.raises(click.UsageError, match="run alone"):
        cli.main(["validate", "scheduler", "storage"], standalone_mode=False)
    with pytest.raises(ConfigError, match="no kubeconfig was given"):
        cli.main(["validate", "scheduler"], standalone_mode=False)


def test_a_kubeconfig_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    argv = ["validate", "scheduler", "--kubeconfig", str(tmp_path / "none")]
    with pytest.raises(ConfigError, match="cannot be read"):
        cli.main(argv, standalone_mode=False)


def test_an_address_that_is_none_of_a_prometheus_is_refused() -> None:
    with pytest.raises(ConfigError, match="not the address of a Prometheus"):
        Prometheus("10.0.0.10")
