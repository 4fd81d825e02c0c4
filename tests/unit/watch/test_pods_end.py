"""Pods on a host that cordoned itself: announced and ended at the stated time, those with GPUs alone."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from appliance.probe.problems import Unreadable
from appliance.watch import bound, cluster, verdict
from appliance.watch.acts import act as act_on
from appliance.watch.cluster import ENDS, Cluster
from appliance.watch.pods import moment
from appliance.watch.verdict import Cause, Verdict
from tests.unit.watch.test_cluster import DISK, LOST, Nodes, Resource, place_in

CLOCK = Cause("base.clock", "the clock is 900 s off")


def pod(name: str, gpus: int = 1, **meta: Any) -> Resource:
    limits = {"nvidia.com/gpu": str(gpus)} if gpus else {}
    return {
        "metadata": {"name": name, "namespace": "a", "uid": "u-" + name, **meta},
        "spec": {"containers": [{"resources": {"limits": limits}}]},
        "status": {"phase": "Running"},
    }


@pytest.fixture
def nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Nodes:
    api = Nodes(pods=[pod("train"), pod("idle", 0)])
    monkeypatch.setattr(cluster, "Api", lambda ask, kubeconfig: api)
    monkeypatch.setattr(Cluster, "place", place_in(tmp_path))
    monkeypatch.setattr(bound, "PAUSE_S", 0.001)
    return api


def act(*causes: Cause, minutes: int = 30, verb: str = "act") -> Verdict:
    given = {"node": "g1", "most_out": 1, "return_after_minutes": 10}
    return act_on(given, Verdict(list(causes), []), Cluster("g1", end_minutes=minutes), verb)


def pass_by(nodes: Nodes) -> None:
    """The stated time is over, by both clocks."""
    nodes.annotations("g1")[ENDS] = moment(time.time() - 1)
    file = Path(Cluster.place.last)
    file.write_text(json.dumps({**json.loads(file.read_text()), "until": time.monotonic() - 1}))


def ended(nodes: Nodes) -> list[str]:
    return [path.rpartition("/")[2] for verb, path, _ in nodes.others if verb == "DELETE"]


def test_owners_learn_the_time_and_the_pod_is_ended_then_and_no_earlier(nodes: Nodes) -> None:
    act(LOST)
    (notice,) = nodes.others
    assert notice[:2] == ("POST", "/api/v1/namespaces/a/events")
    ends = nodes.annotations("g1")[ENDS]
    assert 1700 < _seconds(ends) - time.time() <= 1800
    assert f"this pod is ended at {ends}" in notice[2]["message"]
    assert "gpu.error GPU 3" in notice[2]["message"]
    act(LOST)
    assert ended(nodes) == []
    pass_by(nodes)
    act(LOST)
    assert ended(nodes) == ["train"]
    assert nodes.others[-1][2] == {"gracePeriodSeconds": 1, "preconditions": {"uid": "u-train"}}


@pytest.mark.parametrize(
    "left",
    [
        pod("done") | {"status": {"phase": "Succeeded"}},
        pod("ending", deletionTimestamp="2026-12-01T00:00:00Z"),
        pod("agent", ownerReferences=[{"kind": "DaemonSet"}]),
        pod("static", annotations={"kubernetes.io/config.mirror": "x"}),
        pod("held", namespace="kai-resource-reservation"),
        pod("web", 0),
    ],
)
def test_pods_without_gpus_and_of_the_host_stay(nodes: Nodes, left: Resource) -> None:
    nodes.pods = [left]
    act(LOST)
    pass_by(nodes)
    act(LOST)
    assert nodes.others == []


@pytest.mark.parametrize("kind", ["fraction", "claim"])
def test_a_part_of_a_gpu_and_a_claim_count_as_gpus(nodes: Nodes, kind: str) -> None:
    shared = pod("shared", 0, annotations={"gpu-fraction": "0.5"} if kind == "fraction" else {})
    shared["spec"] |= {"resourceClaims": [{"name": "gpu"}]} if kind == "claim" else {}
    nodes.pods = [shared]
    act(LOST)
    pass_by(nodes)
    act(LOST)
    assert ended(nodes) == ["shared"]


@pytest.mark.parametrize("words", [None, "never"])
def test_an_operator_may_keep_the_pods(nodes: Nodes, words: str | None) -> None:
    act(LOST)
    pass_by(nodes)
    nodes.annotations("g1").pop(ENDS)
    if words:
        nodes.annotations("g1")[ENDS] = words
    act(LOST)
    assert ended(nodes) == []


def test_a_site_without_a_time_ends_no_pod(nodes: Nodes) -> None:
    act(LOST, minutes=0)
    assert ENDS not in nodes.annotations("g1")
    act(LOST, minutes=0)
    assert nodes.others == []


def test_a_clock_that_jumps_or_is_wrong_ends_no_pod(nodes: Nodes) -> None:
    act(LOST)
    nodes.annotations("g1")[ENDS] = moment(time.time() - 1)
    act(LOST)
    assert ended(nodes) == []
    pass_by(nodes)
    act(LOST, CLOCK)
    assert ended(nodes) == []


def test_after_a_reboot_the_stated_time_holds(nodes: Nodes) -> None:
    act(LOST)
    pass_by(nodes)
    Path(Cluster.place.last).unlink()
    act(LOST)
    assert ended(nodes) == ["train"]


def test_no_pod_is_ended_once_the_host_is_fit_or_an_operator_s(nodes: Nodes) -> None:
    act(DISK)
    pass_by(nodes)
    act()
    assert ended(nodes) == []
    act(LOST)
    nodes.others.clear()
    nodes.known["g1"]["spec"] = {}
    act(LOST)
    assert ended(nodes) == []
    assert ENDS not in nodes.annotations("g1")
    nodes.known["g1"]["spec"] = {"unschedulable": True}
    act(LOST)
    assert ended(nodes) == []


def test_a_pod_that_cannot_be_ended_is_reported(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    act(LOST)
    pass_by(nodes)
    usual = nodes.change

    def refuse(path: str, content: str, kind: str, verb: str = "PATCH") -> None:
        if verb == "DELETE":
            raise Unreadable("10.0.0.1:6443 answered 403: no")
        usual(path, content, kind, verb)

    monkeypatch.setattr(nodes, "change", refuse)
    seen = act(LOST)
    assert seen.gaps == ["pod a/train: 10.0.0.1:6443 answered 403: no"]
    assert seen.state == verdict.OUT


def _seconds(text: str) -> float:
    from calendar import timegm

    return timegm(time.strptime(text, "%Y-%m-%dT%H:%M:%SZ"))
