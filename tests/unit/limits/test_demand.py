"""Pods that wait for a MIG instance have one made where it costs least; what is not known asks nobody for anything."""

import json
from typing import Any

import pytest

from appliance.limits.demand import PATIENCE_S, REST_S, STATE, TRIES, WISH
from appliance.limits.owners import FEW
from appliance.limits.pods import amount
from appliance.limits.trouble import Trouble
from tests.support.limits_world import SPACE, World, status

READY = {"conditions": [{"type": "Ready", "status": "True"}]}
SMALL, LARGE = "1g.10gb", "3g.40gb"
NOWHERE = {"type": "PodScheduled", "status": "False"}
UNPLACED = {"phase": "Pending", "conditions": [NOWHERE]}


class Cluster:
    """Hosts that report, and pods that wait."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.policy(hosts=["gpu-1", "gpu-2"], profiles=[SMALL, LARGE], queues=["lattice-build"])
        self.host("gpu-1")
        self.host("gpu-2")

    def policy(self, **pool: Any) -> None:
        path = "/api/v1/namespaces/appliance-limits/configmaps/appliance-mig"
        data = {"slices": json.dumps(pool)}
        self.world.server.put(path, {"metadata": {"name": "appliance-mig"}, "data": data})

    def node(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.world.server.store[f"/api/v1/nodes/{name}"]
        return found

    def host(self, name: str, age: float = 30, **said: Any) -> None:
        """A host and its report; by default whole GPUs for 14 small instances and nothing divided."""
        report = {
            "at": self.world.wall - age,
            "serial": "",
            "free": {},
            "beside": {},
            "room": {SMALL: 14, LARGE: 4},
            "problem": "",
            **said,
        }
        path = f"/api/v1/nodes/{name}"
        notes = {STATE: json.dumps(report)}
        if path in self.world.server.store:
            self.node(name)["metadata"]["annotations"].update(notes)
            return
        meta = {"name": name, "labels": {"rack": name}, "annotations": notes}
        self.world.server.put(path, {"metadata": meta, "spec": {}, "status": READY})

    def waits(self, name: str, profile: str = SMALL, number: int = 1, **more: Any) -> None:
        given = {"status": UNPLACED, "resource": f"nvidia.com/mig-{profile}", "gpus": number}
        self.world.pod(name, age=0, **{**given, **more})

    def wish(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(
            self.node(name)["metadata"]["annotations"].get(WISH, "{}")
        )
        return found

    def made(self, name: str, **report: Any) -> None:
        """The host reports that it did as it was wished."""
        self.host(name, serial=self.wish(name)["serial"], **report)

    def round(self) -> dict[str, Any]:
        self.world.wall, self.world.steady = self.world.wall + 30, self.world.steady + 30
        seen: dict[str, Any] = self.world.round()["demand"]
        return seen


@pytest.fixture
def cluster(world: World) -> Cluster:
    return Cluster(world)


def test_a_report_of_nested_brackets_ends_no_round_of_the_others(cluster: Cluster) -> None:
    cluster.node("gpu-1")["metadata"]["annotations"][STATE] = "[" * (200 << 10)
    cluster.waits("small")
    assert cluster.round()["wishes"] == 1
    assert cluster.wish("gpu-2")["make"] == {SMALL: 1}


def test_pods_that_wait_are_made_instances_for_on_one_host(cluster: Cluster) -> None:
    for name in ("a", "b", "c"):
        cluster.waits(name)
    seen = cluster.round()
    assert cluster.wish("gpu-1")["make"] == {SMALL: 3}
    assert cluster.wish("gpu-2") == {}
    assert (seen["waiting"], seen["unmet"], seen["troubles"]) == (3, [], [])


def test_hosts_that_are_many_are_read_in_one_list(cluster: Cluster) -> None:
    names = [f"gpu-{number}" for number in range(1, FEW + 5)]
    cluster.policy(hosts=[*names, "gpu-99"], profiles=[SMALL], queues=["lattice-build"])
    for name in names:
        cluster.host(name, room={SMALL: 14} if name == "gpu-9" else {})
    cluster.host("others")
    cluster.waits("a")
    cluster.world.server.seen.clear()
    assert cluster.round()["troubles"] == ["gpu-99 has not joined the cluster"]
    assert cluster.wish("gpu-9")["make"] == {SMALL: 1}
    asked = [path for method, path, _ in cluster.world.server.seen if "/nodes" in path]
    assert asked == ["/api/v1/nodes", "/api/v1/nodes/gpu-9"]


def test_a_host_with_room_on_a_divided_gpu_comes_first(cluster: Cluster) -> None:
    cluster.host("gpu-2", beside={SMALL: 2}, room={SMALL: 9})
    cluster.waits("a")
    cluster.round()
    assert cluster.wish("gpu-2")["make"] == {SMALL: 1}
    assert cluster.wish("gpu-1") == {}


def test_nothing_is_asked_twice_while_it_is_being_made(cluster: Cluster) -> None:
    cluster.waits("a")
    cluster.round()
    first = cluster.wish("gpu-1")
    cluster.node("gpu-1")["spec"] = {"unschedulable": True}
    cluster.round()
    assert cluster.wish("gpu-1") == first
    cluster.waits("b")
    cluster.round()
    assert cluster.wish("gpu-1") == first
    assert cluster.wish("gpu-2")["make"] == {SMALL: 1}


def test_an_instance_that_is_free_is_the_schedulers_business(cluster: Cluster) -> None:
    cluster.host("gpu-2", free={SMALL: 1})
    cluster.waits("a")
    assert cluster.round()["unmet"] == []
    assert cluster.wish("gpu-1") == cluster.wish("gpu-2") == {}


def test_a_free_instance_of_a_host_in_trouble_is_none(cluster: Cluster) -> None:
    cluster.host("gpu-2", free={SMALL: 1}, problem="the node still offers 8 x gpu")
    cluster.waits("a")
    cluster.round()
    assert cluster.wish("gpu-1")["make"] == {SMALL: 1}


def test_a_free_instance_on_a_host_that_takes_no_pods_is_none(cluster: Cluster) -> None:
    cluster.host("gpu-2", free={SMALL: 1})
    cluster.node("gpu-2")["spec"] = {"unschedulable": True}
    cluster.waits("a")
    cluster.round()
    assert cluster.wish("gpu-1")["make"] == {SMALL: 1}


def test_a_host_is_asked_for_one_kind_at_a_time(cluster: Cluster) -> None:
    cluster.waits("a", LARGE)
    cluster.waits("b", SMALL)
    cluster.round()
    assert [cluster.wish(f"gpu-{n}")["make"] for n in (1, 2)] == [{LARGE: 1}, {SMALL: 1}]


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"profile": "7g.80gb"}, "no host on which it may run offers that MIG profile"),
        ({"queue": "lattice-other"}, "no host on which it may run offers that MIG profile"),
        ({"number": 20}, "no host has room now"),
        ({"number": "1k"}, "waits for 1000 x 1g.10gb: no host has room now"),
        ({"spec": {"affinity": {"nodeAffinity": {}}}}, "only nodeSelector is supported"),
    ],
)
def test_what_cannot_be_made_is_said_with_its_reason(
    cluster: Cluster, more: dict[str, Any], told: str
) -> None:
    if "spec" in more:
        limits = {"resources": {"limits": {"nvidia.com/mig-1g.10gb": "1"}}}
        more["spec"]["containers"] = [limits]
    cluster.waits("a", **more)
    (line,) = cluster.round()["unmet"]
    assert line.startswith(f"{SPACE}/a waits for")
    assert told in line
    assert cluster.wish("gpu-1") == {}


def test_a_pod_has_its_instance_made_where_its_selector_lets_it_run(cluster: Cluster) -> None:
    asked = {"resources": {"limits": {"nvidia.com/mig-1g.10gb": "1"}}}
    cluster.waits("a", spec={"containers": [asked], "nodeSelector": {"rack": "gpu-2"}})
    cluster.round()
    assert cluster.wish("gpu-2")["make"] == {SMALL: 1}


@pytest.mark.parametrize(
    "state",
    [
        {"phase": "Pending", "conditions": []},
        {"phase": "Pending", "conditions": [{**NOWHERE, "reason": "SchedulingGated"}]},
        {"phase": "Running", "conditions": UNPLACED["conditions"]},
        {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "True"}]},
    ],
    ids=["not looked at", "gated", "runs", "placed"],
)
def test_only_pods_no_place_was_found_for_are_met(cluster: Cluster, state: dict[str, Any]) -> None:
    cluster.waits("a", status=state)
    assert cluster.round()["waiting"] == 0
    assert cluster.wish("gpu-1") == {}


def test_pods_of_nobodys_project_are_not_met(cluster: Cluster) -> None:
    cluster.waits("a", space="default")
    assert cluster.round()["waiting"] == 0
    assert cluster.wish("gpu-1") == {}


def test_a_host_that_does_not_report_is_asked_nothing_and_named(cluster: Cluster) -> None:
    cluster.host("gpu-1", age=3600)
    cluster.waits("a")
    seen = cluster.round()
    assert cluster.wish("gpu-1") == {}
    assert cluster.wish("gpu-2")["make"] == {SMALL: 1}
    assert seen["troubles"] == [
        "gpu-1 does not report: systemctl status appliance-mig-demand there"
    ]


def test_a_host_that_is_not_there_is_named(cluster: Cluster) -> None:
    cluster.policy(hosts=["gpu-9"], profiles=[SMALL], queues=[])
    assert cluster.round()["troubles"] == ["gpu-9 has not joined the cluster"]


def test_a_host_that_could_not_rests_and_is_asked_again(cluster: Cluster) -> None:
    cluster.waits("a")
    cluster.round()
    cluster.made("gpu-1", problem="GPU 0: failed")
    assert cluster.round()["troubles"] == ["gpu-1: GPU 0: failed"]
    first, other = cluster.wish("gpu-1"), cluster.wish("gpu-2")
    assert other["make"] == {SMALL: 1}
    cluster.made("gpu-2", problem="GPU 1: failed")
    for _ in range(round(REST_S / 30)):
        cluster.round()
        cluster.made("gpu-1", problem="GPU 0: failed")
        cluster.made("gpu-2", problem="GPU 1: failed")
    cluster.round()
    assert cluster.wish("gpu-1") != first


def test_a_wish_nobody_carries_out_is_said(cluster: Cluster) -> None:
    cluster.waits("a")
    cluster.round()
    for _ in range(round(PATIENCE_S / 30) + 2):
        cluster.host("gpu-1")
        cluster.host("gpu-2", room={})
        seen = cluster.round()
    assert "gpu-1 has not carried out its last request" in seen["troubles"]
    assert "no host has room now" in seen["unmet"][0]


def test_what_is_made_and_not_used_is_not_made_for_ever(cluster: Cluster) -> None:
    cluster.waits("a")
    for _ in range(TRIES + 3):
        seen = cluster.round()
        for name in ("gpu-1", "gpu-2"):
            if cluster.wish(name):
                cluster.made(name)
    assert seen["wishes"] == TRIES
    assert f"created {TRIES} times but not used" in seen["unmet"][0]


@pytest.mark.parametrize("profile", [SMALL, LARGE])
def test_a_host_that_only_reports_free_instances_keeps_no_pod_from_the_others(
    cluster: Cluster, profile: str
) -> None:
    cluster.waits("a", profile)
    for _ in range(round(PATIENCE_S / 30) + 3):
        cluster.host("gpu-1", free={profile: 10**9})
        cluster.host("gpu-2")
        cluster.round()
    assert cluster.wish("gpu-1") == {}
    assert cluster.wish("gpu-2")["make"] == {profile: 1}


def test_a_host_that_only_says_it_did_uses_up_no_tries_of_the_others(cluster: Cluster) -> None:
    cluster.host("gpu-1", beside={SMALL: 7}, room={SMALL: 1})
    cluster.waits("a")
    cluster.round()
    cluster.made("gpu-1", beside={SMALL: 7}, room={SMALL: 1})
    cluster.round()
    assert cluster.wish("gpu-2")["make"] == {SMALL: 1}


def test_a_hosts_own_words_are_one_line_of_the_journal(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.host("gpu-1", problem="GPU 0\nPod team/other: ended\x1b[2J")
    told = cluster.round()["troubles"]
    assert told == ["gpu-1: GPU 0 Pod team/other: ended [2J"]
    assert capsys.readouterr().err.splitlines() == [
        "MIG on demand: gpu-1: GPU 0 Pod team/other: ended [2J"
    ]


def test_without_a_policy_no_node_is_read(world: World) -> None:
    assert world.round()["demand"] is None
    assert not [path for _, path, _ in world.server.seen if "/nodes" in path]


def test_what_goes_wrong_here_keeps_no_limit_from_being_kept(cluster: Cluster) -> None:
    cluster.policy(hosts="gpu-1")
    cluster.world.pod("old", age=100)
    seen = cluster.round()
    assert "pool slices of MIG on demand cannot be read" in seen["troubles"][0]
    assert cluster.world.said


@pytest.mark.parametrize(("said", "is_meant"), [("12", 12), ("1k", 1000), ("2Ki", 2048)])
def test_a_number_is_read_as_the_api_writes_it(said: str, is_meant: int) -> None:
    assert amount(said) == is_meant


def test_who_asks_for_a_thousand_keeps_no_limit_from_being_kept(cluster: Cluster) -> None:
    asked = {"resources": {"limits": {"nvidia.com/mig-1g.10gb": "1k"}}}
    cluster.waits("a", spec={"containers": [asked]})
    cluster.world.pod("old", age=100)
    cluster.round()
    assert cluster.world.said


def test_a_right_that_was_taken_is_one_line(cluster: Cluster) -> None:
    cluster.waits("a")
    cluster.world.server.faults.append(("PATCH", "/nodes/", status(403, "nodes is forbidden")))
    assert cluster.round()["troubles"] == [
        "PATCH /api/v1/nodes/gpu-1: nodes is forbidden (HTTP 403)"
    ]


def test_a_host_that_lost_the_lease_asks_for_nothing(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.waits("a")
    monkeypatch.setattr("appliance.limits.lease.Lease.held", lambda self: False)
    assert "the lease was not renewed in time" in cluster.round()["troubles"][0]
    assert cluster.wish("gpu-1") == {}


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("{", "gpu-1 does not report"),
        ('{"at": "x"}', "gpu-1 has an unreadable report"),
        ('{"room": {"1g.10gb": null}}', "gpu-1 has an unreadable report"),
        ('{"free": {"1g.10gb": Infinity}}', "gpu-1 has an unreadable report"),
    ],
)
def test_reports_nobody_can_read_are_none(cluster: Cluster, said: str, told: str) -> None:
    cluster.node("gpu-1")["metadata"]["annotations"][STATE] = said
    cluster.waits("a")
    assert told in cluster.round()["troubles"][0]
    assert cluster.wish("gpu-2")["make"] == {SMALL: 1}


def test_a_clock_that_is_wrong_asks_for_nothing(cluster: Cluster) -> None:
    cluster.waits("a")
    cluster.world.server.skew = 300
    with pytest.raises(Trouble, match="clock"):
        cluster.round()
    assert cluster.wish("gpu-1") == {}
