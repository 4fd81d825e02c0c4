"""appliance validate workloads: a verdict for each add-on, and the exit code of all."""

import json

import click
import pytest
from click.testing import CliRunner

from appliance.acceptance.hello import HELLOS
from appliance.acceptance.hello_trial import run
from appliance.actions.trials import workloads as action
from appliance.cli.main import cli
from appliance.errors import ConfigError
from appliance.lab import spec
from tests.support.hello_cluster import WHERE, Cluster


def tried(monkeypatch: pytest.MonkeyPatch, cluster: Cluster, *flags: str) -> tuple[int, str]:
    verdicts = run(cluster, cluster, WHERE, HELLOS, lambda _: None)
    monkeypatch.setattr(action, "prove", lambda *_: verdicts)
    argv = ["validate", "workloads", "--kubeconfig", "admin.conf", *flags]
    done = CliRunner().invoke(cli, argv, standalone_mode=False)
    assert done.exception is None
    return int(done.return_value), done.stdout


def test_all_good_ends_with_0_and_says_how_many(monkeypatch: pytest.MonkeyPatch) -> None:
    code, said = tried(monkeypatch, Cluster())
    assert code == 0
    assert f"PASSED: {len(HELLOS)} of {len(HELLOS)} add-ons passed" in said


@pytest.mark.parametrize(("fault", "code"), [("fails", 1), ("no room", 3)])
def test_what_failed_or_could_not_be_shown_has_its_exit_code(
    monkeypatch: pytest.MonkeyPatch, fault: str, code: int
) -> None:
    found, said = tried(monkeypatch, Cluster(fault), "--json")
    assert found == code
    assert len(json.loads(said)["results"]) == len(HELLOS)


def test_workloads_are_tried_alone_and_belong_to_a_site(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spec, "load", lambda _: None)
    with pytest.raises(click.UsageError, match="run alone"):
        cli.main(["validate", "workloads", "storage"], standalone_mode=False)
    argv = ["validate", "workloads", "--kubeconfig", "admin.conf"]
    with pytest.raises(ConfigError, match="no virtual rack is running"):
        cli.main(argv, standalone_mode=False)
