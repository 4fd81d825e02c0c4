"""appliance validate conformance: a verdict for each requirement, and where the evidence lies."""

import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from appliance.acceptance.conformance import run
from appliance.actions.trials import conformance as action
from appliance.cli.main import cli
from appliance.errors import ConfigError
from tests.support.clusters import ONE_HOST
from tests.support.conformance_cluster import QUICK, Cluster
from tests.support.fake_kubernetes import kubeconfig, serving


def tried(monkeypatch: pytest.MonkeyPatch, *flags: str) -> tuple[int, str, list[object]]:
    """Exit code and output of the verb on a cluster in memory, and what the action was given."""
    cluster, given = Cluster(ONE_HOST), list[object]()

    def prove(*words: object) -> object:
        given.extend(words)
        return (entry.result for entry in run(cluster, cluster, QUICK))

    monkeypatch.setattr(action, "prove", prove)
    argv = ["validate", "conformance", "--kubeconfig", "site/admin.conf", *flags]
    done = CliRunner().invoke(cli, argv, standalone_mode=False)
    assert done.exception is None
    return int(done.return_value), done.stdout, given


def test_what_is_missing_ends_with_1_and_the_folder_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    code, said, given = tried(monkeypatch)
    assert code == 1
    assert "FAILED: 3 of 12 requirements met" in said
    assert "evidence: site/conformance/PRODUCT.yaml" in said
    assert Path("site/conformance") in given


def test_another_folder_and_json(monkeypatch: pytest.MonkeyPatch) -> None:
    code, said, given = tried(monkeypatch, "--json", "--evidence", "mine")
    assert code == 1
    assert Path("mine") in given
    results = {r["id"]: r["status"] for r in json.loads(said)["results"]}
    assert results["conformance.gang_scheduling"] == "pass"
    assert results["conformance.ai_inference"] == "fail"
    assert results["conformance.cluster_autoscaling"] == "skip"


def test_it_is_tried_alone_and_its_folder_is_nobody_elses() -> None:
    with pytest.raises(click.UsageError, match="conformance is run alone"):
        cli.main(["validate", "conformance", "storage"], standalone_mode=False)
    argv = ["validate", "scheduler", "--evidence", "mine", "--kubeconfig", "admin.conf"]
    with pytest.raises(click.UsageError, match="--evidence needs"):
        cli.main(argv, standalone_mode=False)


def test_a_folder_that_cannot_be_made_is_one_line_before_the_cluster_is_asked(
    tmp_path: Path,
) -> None:
    (tmp_path / "file").write_text("")
    with serving() as api:
        config = kubeconfig(tmp_path, api.url)
        argv = ["validate", "conformance", "--kubeconfig", str(config)]
        with pytest.raises(ConfigError, match="cannot be created"):
            cli.main([*argv, "--evidence", str(tmp_path / "file/sub")], standalone_mode=False)
