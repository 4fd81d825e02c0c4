"""appliance node: what is refused before a host is met, what a move does in which order, and what is left when it fails."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from appliance.actions.deployment.deploy import Deployed
from appliance.actions.hosts import owners as action
from appliance.cli.main import cli
from appliance.config.load import load_site
from appliance.engine.plan.selection import Filters
from appliance.engine.run import drain as draining
from appliance.engine.session import Session
from appliance.models.drain import Why
from tests.support.drain_world import World
from tests.support.engine_fakes import FakeHosts
from tests.support.engine_session import hosts, recorder, session
from tests.support.node_site import CLUSTER, SITE

__all__ = ["hosts", "recorder", "session"]

GIVEN_AWAY = "appliance: a host of kubernetes"


class Bench:
    """A site on disk, schedulers that answer, and deployments that are noted instead of made."""

    def __init__(self, folder: Path, world: World) -> None:
        self.file = folder / "site.yml"
        self.file.write_text(SITE.replace("[control, gpu]", "[login, gpu]") + CLUSTER)
        self.world = world
        self.deployed: list[tuple[Filters, str, str]] = []
        self.code = 0

    def run(self, *argv: str) -> Result:
        words = ["node", argv[0], "--site", str(self.file), *argv[1:]]
        return CliRunner().invoke(cli, words, standalone_mode=False)

    def move(self, *argv: str) -> Result:
        return self.run("assign", *argv, "--yes", "--wait", "0")


@pytest.fixture
def bench(
    session: Session, hosts: FakeHosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Bench:
    monkeypatch.setattr(draining, "PAUSE", 0.0)
    monkeypatch.setenv("A", "x")
    (tmp_path / "known_hosts").write_text("")
    made = Bench(tmp_path, World(hosts))
    made.world.reasons["gpu-1"] = GIVEN_AWAY
    made.world.node = {
        "metadata": {"name": "gpu-1"},
        "spec": {},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }

    @contextmanager
    def opened(*_: object, **__: object) -> Iterator[Session]:
        object.__setattr__(session, "site", load_site(made.file).site)
        yield session

    def deployed(_: object, filters: Filters, *__: object) -> Deployed:
        made.deployed.append((filters, made.file.read_text(), made.world.reasons["gpu-1"]))
        return Deployed(None, made.code)

    monkeypatch.setattr(action, "open_session", opened)
    monkeypatch.setattr(action, "deploy", deployed)
    return made


@pytest.mark.parametrize(
    ("argv", "site", "said"),
    [
        (("gpu-9", "slurm"), SITE + CLUSTER, "gpu-9: no such host"),
        (("head", "slurm"), SITE + CLUSTER, "head has no GPUs"),
        (
            ("both", "slurm"),
            SITE.replace("[control, storage, login]", "[storage, login]") + CLUSTER,
            "both is a control host",
        ),
        (("gpu-1", "slurm"), SITE, "has no Kubernetes"),
        (("gpu-1", "kubernetes"), SITE, "has no Kubernetes"),
    ],
)
def test_what_makes_no_sense_is_refused_before_a_host_is_asked(
    argv: tuple[str, str], site: str, said: str, bench: Bench, hosts: FakeHosts
) -> None:
    if "both" not in argv:
        site = site.replace("[control, gpu]", "[login, gpu]")
    bench.file.write_text(site)
    refused = bench.move(*argv).exception
    assert said in str(refused)
    assert getattr(refused, "exit_code", None) == 2
    assert hosts.calls == []
    assert bench.deployed == []


def test_a_site_that_may_not_be_so_is_refused_before_a_host_is_asked(
    bench: Bench, hosts: FakeHosts
) -> None:
    pools = "scheduler: {pools: {big: {hosts: [gpu-1]}}}\n"
    bench.file.write_text(bench.file.read_text() + pools)
    before = bench.file.read_text()
    refused = bench.move("gpu-1", "slurm").exception
    assert getattr(refused, "exit_code", None) == 2
    assert hosts.calls == []
    assert bench.file.read_text() == before


def test_the_owner_already_is_refused_and_nothing_is_changed(bench: Bench) -> None:
    before = bench.file.read_text()
    refused = bench.move("gpu-1", "kubernetes").exception
    assert "gpu-1 already belongs to kubernetes" in str(refused)
    assert getattr(refused, "exit_code", None) == 2
    assert bench.file.read_text() == before
    assert not bench.world.cordoned


def test_a_move_drains_then_writes_then_deploys_that_host_alone(bench: Bench) -> None:
    bench.world.reasons["gpu-1"] = GIVEN_AWAY
    done = bench.move("gpu-1", "slurm")
    assert done.return_value == 0, done.output
    filters, text, _ = bench.deployed[0]
    assert filters == Filters(limit=("gpu-1",), stages=("kubernetes", "slurm"))
    assert "- name: gpu-1\n    owner: slurm\n" in text
    assert bench.world.cordoned  # Until stage kubernetes has put the taint in its place.


def test_a_drain_that_is_not_over_in_time_changes_nothing(bench: Bench) -> None:
    bench.file.write_text(
        bench.file.read_text().replace("- name: gpu-1\n", "- name: gpu-1\n    owner: slurm\n")
    )
    bench.world.reasons["gpu-1"], bench.world.jobs = "", ["7 of ada"]
    assert bench.world.node
    bench.world.node["spec"]["taints"] = [{"key": "appliance/owner", "value": "slurm"}]
    before = bench.file.read_text()
    done = bench.move("gpu-1", "kubernetes")
    assert "gpu-1 is not free after 0 min: job 7 of ada" in str(done.exception)
    assert getattr(done.exception, "exit_code", None) == 1
    assert bench.file.read_text() == before
    assert bench.world.reasons["gpu-1"] == ""
    assert not bench.world.cordoned
    assert bench.deployed == []


@pytest.mark.parametrize("written", [False, True])
def test_a_killed_move_is_continued_by_the_same_command(written: bool, bench: Bench) -> None:
    assert bench.world.node
    bench.world.node["spec"]["unschedulable"] = True
    bench.world.node["metadata"]["annotations"] = {"appliance/drained": Why.MOVE.value}
    if written:
        owned = bench.file.read_text().replace(
            "- name: gpu-1\n", "- name: gpu-1\n    owner: slurm\n"
        )
        bench.file.write_text(owned)
    assert bench.move("gpu-1", "slurm").return_value == 0
    assert bench.file.read_text().count("owner: slurm") == 1
    assert len(bench.deployed) == 1


def test_a_deployment_that_fails_keeps_its_exit_code_and_says_how_to_go_on(bench: Bench) -> None:
    bench.code = 1
    done = bench.move("gpu-1", "slurm")
    assert done.return_value == 1
    assert "the same command" in done.output


def test_without_a_terminal_yes_is_needed(bench: Bench, hosts: FakeHosts) -> None:
    assert "add --yes" in str(bench.run("assign", "gpu-1", "slurm").exception)
    assert hosts.calls == []


def test_show_tells_owner_and_work(bench: Bench) -> None:
    bench.world.reasons["both"] = GIVEN_AWAY
    bench.world.pods = []
    done = bench.run("show", "--json")
    assert done.return_value == 0, done.output
    told: dict[str, Any] = json.loads(done.output)["hosts"]["gpu-1"]
    assert told["declared"] == "kubernetes"
    assert told["slurm"] == {
        "owner": "kubernetes",
        "gives_work": False,
        "state": f"idle+drain ({GIVEN_AWAY})",
        "work": [],
    }
    bench.world.reasons["gpu-1"], bench.world.jobs = "", ["7 of ada"]
    wrong = bench.run("show")
    assert wrong.return_value == 1
    assert "job 7 of ada" in wrong.output
    assert f"fix: appliance node assign --site {bench.file} gpu-1 kubernetes" in wrong.output


def test_show_says_what_it_does_not_know(bench: Bench) -> None:
    bench.world.broken = {"kubectl": "Unable to connect"}
    bench.world.units = {"kubelet": "active"}
    done = bench.run("show", "--json")
    assert done.return_value == 1
    assert json.loads(done.output)["hosts"]["gpu-1"]["as_declared"] is None


def test_a_host_its_owner_has_never_heard_of_is_not_good(bench: Bench) -> None:
    bench.world.node = None
    done = bench.run("show")
    assert done.return_value == 1
    assert "? gpu-1" in done.output
    assert f"fix: appliance deploy --site {bench.file} --hosts gpu-1" in done.output
    told = json.loads(bench.run("show", "--json").output)["hosts"]["gpu-1"]
    assert told["as_declared"] is None
