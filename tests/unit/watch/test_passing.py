"""Faults that pass within seconds take no host out; a host whose faults keep coming back stays out."""

import json
from pathlib import Path
from typing import Any

import pytest

from appliance.watch import bound, cluster, verdict
from appliance.watch.acts import act as act_on
from appliance.watch.cluster import Cluster
from appliance.watch.verdict import Cause, Verdict
from tests.unit.watch.test_cluster import DISK, LOST, Nodes, place_in

PORT = Cause("fabric.state", "port 1 is DOWN", "mlx5_2")


@pytest.fixture
def nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Nodes:
    api = Nodes()
    monkeypatch.setattr(cluster, "Api", lambda ask, kubeconfig: api)
    monkeypatch.setattr(Cluster, "place", place_in(tmp_path))
    monkeypatch.setattr(bound, "PAUSE_S", 0.001)
    return api


def act(*causes: Cause, verb: str = "act") -> Verdict:
    given = {"node": "g1", "most_out": 1, "return_after_minutes": 10}
    return act_on(given, Verdict(list(causes), []), Cluster("g1"), verb)


def kept(**changes: Any) -> dict[str, Any]:
    """What the last run kept, with changes."""
    file = Path(Cluster.place.last)
    said = {**json.loads(file.read_text()), **changes}
    file.write_text(json.dumps(said))
    return said


def later(seconds: float) -> None:
    said = kept()
    young = {key: at - seconds for key, at in said["young"].items()}
    kept(young=young, since=said["since"] - seconds)


def test_a_link_that_is_back_in_the_next_run_takes_no_host_out(nodes: Nodes) -> None:
    seen = act(PORT)
    assert seen.gaps == ["seen once so far: fabric.state mlx5_2: port 1 is DOWN"]
    later(30)
    assert not act().gaps
    assert act(PORT).state == verdict.LEFT
    assert nodes.out() == []


def test_a_link_that_stays_down_takes_the_host_out_in_the_second_run(nodes: Nodes) -> None:
    act(PORT)
    later(5)
    act(PORT)
    assert nodes.out() == []
    later(30)
    assert act(PORT).state == verdict.OUT
    assert nodes.condition("g1", "FabricLinkDown")["status"] == "True"
    later(30)
    assert act(PORT).state == verdict.OUT


@pytest.mark.parametrize("verb", ["prolog", "resume"])
def test_before_a_job_and_a_return_it_counts_at_once(nodes: Nodes, verb: str) -> None:
    assert act(PORT, verb=verb).state == verdict.OUT


def test_other_faults_count_at_once_with_it(nodes: Nodes) -> None:
    seen = act(PORT, LOST)
    assert [cause.check for cause in seen.causes] == ["gpu.error"]
    assert nodes.out() == ["g1"]


def test_a_link_that_flaps_returns_no_host(nodes: Nodes) -> None:
    act(DISK)
    act()
    later(601)
    assert act(PORT).state == verdict.OUT
    assert kept()["ours"]
    act()
    assert nodes.out() == ["g1"]
    later(601)
    act()
    assert nodes.out() == []


def out_and_back(nodes: Nodes) -> bool:
    """Whether the host returns by itself after a fault that ended."""
    assert act(DISK).state == verdict.OUT
    act()
    later(601)
    act()
    return nodes.out() == []


def test_a_host_that_was_out_three_times_in_a_day_stays_out_until_an_operator_resumes_it(
    nodes: Nodes,
) -> None:
    assert [out_and_back(nodes) for _ in range(3)] == [True, True, False]
    assert "returns by appliance-node-watch resume" in nodes.condition("g1")["message"]
    act(verb="resume")
    assert nodes.out() == []
    assert out_and_back(nodes)


def test_days_between_do_not_add_up(nodes: Nodes) -> None:
    for _ in range(3):
        assert out_and_back(nodes)
        kept(outs=[at - 90_000 for at in kept()["outs"]])


def test_an_operator_who_resumes_it_in_the_scheduler_starts_the_count_again(nodes: Nodes) -> None:
    for _ in range(4):
        assert act(DISK).state == verdict.OUT
        act()
        nodes.known["g1"]["spec"] = {}
        act()
        assert kept()["outs"] == []
    assert out_and_back(nodes)
