"""appliance node drain, return: who may end a drain, which remaining work is listed, and what is refused."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from appliance.actions.hosts import maintenance as action
from appliance.cli.main import cli
from appliance.config.load import load_site
from appliance.engine.run import drain as draining
from appliance.engine.session import Session
from appliance.models.drain import HEALTH, Maintenance, Why
from tests.support.drain_world import World
from tests.support.engine_fakes import FakeHosts
from tests.support.engine_session import hosts, recorder, session
from tests.support.node_site import CLUSTER, SITE

__all__ = ["hosts", "recorder", "session"]

ME, OTHER = "ada@desk", "bob@desk"
GIVEN_AWAY = "appliance: a host of kubernetes"


class Bench:
    """A site on disk with both schedulers; gpu-1 belongs to Slurm unless a test says otherwise."""

    def __init__(self, folder: Path, world: World, session: Session) -> None:
        self.file = folder / "site.yml"
        self.file.write_text(
            SITE.replace("[control, gpu]", "[login, gpu]").replace(
                "- name: gpu-1\n", "- name: gpu-1\n    owner: slurm\n"
            )
            + CLUSTER
        )
        self.world, self.session = world, session

    def run(self, *argv: str) -> Result:
        words = ["node", argv[0], "--site", str(self.file), *argv[1:]]
        return CliRunner().invoke(cli, words, standalone_mode=False)

    def drain(self, *argv: str) -> Result:
        return self.run("drain", *argv, "--reason", "new power supply")

    @property
    def changes(self) -> list[tuple[str, ...]]:
        words = ("update", "patch", "scancel", "create")
        return [argv for _, argv, _ in self.world.hosts.calls if not set(words).isdisjoint(argv)]

    @property
    def planned(self) -> Maintenance | None:
        return Maintenance.read(self.world.reasons["gpu-1"])


@pytest.fixture
def bench(
    session: Session, hosts: FakeHosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Bench:
    for module in (draining, action):
        monkeypatch.setattr(module, "PAUSE", 0.0)
    monkeypatch.setattr(action, "PATIENCE", 0.0)
    monkeypatch.setattr(action, "operator", lambda: ME)
    monkeypatch.setenv("A", "x")
    (tmp_path / "known_hosts").write_text("")
    made = Bench(tmp_path, World(hosts), session)

    @contextmanager
    def opened(*_: object, **__: object) -> Iterator[Session]:
        object.__setattr__(session, "site", load_site(made.file).site)
        yield session

    monkeypatch.setattr(action, "open_session", opened)
    return made


def refused(done: Result, *words: str) -> None:
    assert getattr(done.exception, "exit_code", None) == 2, done.output
    said = f"{done.exception} {getattr(done.exception, 'hint', '')}"
    assert "\n" not in said
    for word in words:
        assert word in said


def test_both_schedulers_keep_who_since_and_why_and_running_work_is_told(bench: Bench) -> None:
    bench.world.jobs = ["7 of ada"]
    done = bench.drain("gpu-1")
    assert done.return_value == 0, done.exception
    assert bench.planned
    assert (bench.planned.why, bench.planned.who) == ("new power supply", ME)
    assert bench.world.node
    kept = bench.world.node["metadata"]["annotations"]["appliance/drained"]
    assert Maintenance.read(kept) == bench.planned
    assert bench.world.cordoned
    assert "job 7 of ada" in done.output
    assert f"back to work: appliance node return --site {bench.file} gpu-1" in done.output
    assert bench.world.jobs  # No job was ended.
    (entry,) = bench.session.journal.entries(action.BEGAN)
    assert (entry.host, entry.data["who"]) == ("gpu-1", ME)


def test_work_that_does_not_end_in_time_is_left_and_the_host_stays_out(bench: Bench) -> None:
    bench.world.jobs = ["7 of ada"]
    done = bench.drain("gpu-1", "--wait", "0.00001")
    assert done.return_value == 1
    assert "job 7 of ada" in done.output
    assert bench.planned


def test_work_is_waited_for_and_with_consent_ended(bench: Bench) -> None:
    bench.world.jobs, bench.world.looks_until_jobs_end = ["7 of ada"], 3
    assert bench.drain("gpu-1", "--wait", "5").return_value == 0
    bench.world.jobs, bench.world.looks_until_jobs_end = ["8 of ada"], 10**6
    done = bench.drain("gpu-1", "--evict")
    assert done.return_value == 0, done.output
    assert bench.world.jobs == []


def test_a_host_of_kubernetes_stays_away_from_slurm(bench: Bench) -> None:
    bench.file.write_text(bench.file.read_text().replace("owner: slurm", "owner: kubernetes"))
    bench.world.reasons["gpu-1"] = GIVEN_AWAY
    assert bench.world.node
    bench.world.node["status"] = {"conditions": [{"type": "Ready", "status": "True"}]}
    assert bench.drain("gpu-1").return_value == 0
    assert bench.world.cordoned
    assert bench.world.reasons["gpu-1"] == GIVEN_AWAY
    assert bench.run("return", "gpu-1").return_value == 0
    assert not bench.world.cordoned
    assert bench.world.reasons["gpu-1"] == GIVEN_AWAY


def test_return_ends_it_in_both(bench: Bench) -> None:
    bench.drain("gpu-1")
    done = bench.run("return", "gpu-1")
    assert done.return_value == 0, done.output
    assert bench.world.reasons["gpu-1"] == ""
    assert not bench.world.cordoned
    assert bench.world.node == {"metadata": {"name": "gpu-1", "annotations": {}}, "spec": {}}


def test_a_host_that_its_scheduler_does_not_use_after_the_return_is_told(bench: Bench) -> None:
    bench.drain("gpu-1")
    bench.world.silent = "*"
    done = bench.run("return", "gpu-1")
    assert done.return_value == 1
    assert "✗ gpu-1        idle*" in done.output


@pytest.mark.parametrize(
    "reason", ["broken fan", f"appliance: maintenance: x (by {OTHER}, 2026-12-01 09:14 UTC)"]
)
def test_another_persons_drain_is_neither_replaced_nor_ended_without_force(
    reason: str, bench: Bench
) -> None:
    bench.world.reasons["gpu-1"] = reason
    refused(bench.drain("gpu-1"), "gpu-1 is drained by another operator", "--force")
    refused(bench.run("return", "gpu-1"), "gpu-1", "--force")
    assert bench.changes == []
    assert bench.drain("gpu-1", "--force").return_value == 0
    assert bench.planned
    assert bench.planned.who == ME
    bench.world.reasons["gpu-1"] = reason
    assert bench.run("return", "gpu-1", "--force").return_value == 0
    assert bench.world.reasons["gpu-1"] == ""


def test_a_cordon_by_hand_is_another_persons(bench: Bench) -> None:
    assert bench.world.node
    bench.world.node["spec"]["unschedulable"] = True
    refused(bench.drain("gpu-1"), "drained by another operator: cordoned by hand")
    assert bench.changes == []


@pytest.mark.parametrize(
    "reason", [Why.DRIVER.value, f"{HEALTH}gpu.count 7 of 8", "Not responding", "Low RealMemory"]
)
def test_what_a_program_drained_may_become_maintenance(reason: str, bench: Bench) -> None:
    bench.world.reasons["gpu-1"] = reason
    assert bench.drain("gpu-1").return_value == 0
    assert bench.planned


def test_a_drain_for_another_reason_is_not_ended_by_return(bench: Bench) -> None:
    bench.world.reasons["gpu-1"] = f"{HEALTH}gpu.count 7 of 8"
    refused(bench.run("return", "gpu-1"), "not in maintenance, but drained: appliance: health")
    bench.world.reasons["gpu-1"] = ""
    refused(bench.run("return", "gpu-1"), "gpu-1 is in service")
    assert bench.changes == []


@pytest.mark.parametrize(
    ("host", "said"),
    [("gpu-9", "gpu-9: no such host"), ("head", "head has no GPUs")],
)
def test_hosts_without_work_are_refused_before_one_is_asked(
    host: str, said: str, bench: Bench
) -> None:
    refused(bench.drain(host), said)
    assert bench.world.hosts.calls == []


def test_a_reason_that_no_scheduler_keeps_is_refused(bench: Bench) -> None:
    refused(bench.run("drain", "gpu-1", "--reason", "a]b"), "--reason")
    assert bench.world.hosts.calls == []


def test_a_scheduler_that_does_not_answer_is_an_error_before_any_change(bench: Bench) -> None:
    bench.world.broken = {"squeue": "Unable to contact slurm controller"}
    done = bench.drain("gpu-1")
    assert "Unable to contact slurm controller" in str(done.exception)
    assert bench.changes == []


def test_show_tells_since_when_and_why(bench: Bench) -> None:
    bench.drain("gpu-1")
    assert bench.planned
    from appliance.actions.hosts import owners

    seen = owners.look_at(bench.session, bench.session.site.host("gpu-1"))
    assert seen.maintenance == bench.planned
