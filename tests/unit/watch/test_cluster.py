"""The program for Kubernetes: a host that is unfit cordons its own node, within the limit, and says why in a condition."""

import json
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

import pytest

from appliance.models.drain import HEALTH
from appliance.probe.ask import Ask
from appliance.probe.problems import Unreadable
from appliance.stages.kubernetes.collect.api import MERGE, STRATEGIC, Api
from appliance.watch import bound, cluster, command, verdict
from appliance.watch.acts import act as act_on
from appliance.watch.cluster import ANNOUNCED, CONDITION, OWNER, REASON, Cluster
from appliance.watch.node import PREFIX, Silent
from appliance.watch.place import KUBERNETES, Place
from appliance.watch.verdict import Cause, Verdict
from tests.support.cluster_api import Serve, serve

__all__ = ["serve"]

Resource = dict[str, Any]
DISK = Cause("base.disk", "/ has 0.0 % free")
LOST = Cause("gpu.error", "the driver cannot reach it", "GPU 3")


def node(name: str) -> Resource:
    return {"metadata": {"name": name, "resourceVersion": "1"}, "spec": {}, "status": {}}


@dataclass
class Nodes:
    """The API in memory, as NodeRestriction guards it: a kubelet changes its own node."""

    known: dict[str, Resource] = field(default_factory=lambda: {n: node(n) for n in ("g1", "g2")})
    silent: bool = False
    highest: int = 0
    sent: list[tuple[str, Resource]] = field(default_factory=list)
    pods: list[Resource] = field(default_factory=list)
    others: list[tuple[str, str, Resource]] = field(default_factory=list)
    """Requests that change no node: verb, path, content."""
    lock: Any = field(default_factory=Lock)

    def out(self) -> list[str]:
        return [n for n, one in self.known.items() if one["spec"].get("unschedulable")]

    def annotations(self, name: str) -> Resource:
        found: Resource = self.known[name]["metadata"].get("annotations", {})
        return found

    def condition(self, name: str, kind: str = CONDITION) -> Resource:
        known = self.known[name]["status"]["conditions"]
        (found,) = (one for one in known if one["type"] == kind)
        return dict(found)

    def object(self, path: str) -> Resource:
        with self.lock:
            if self.silent:
                raise Unreadable("10.0.0.1:6443 did not answer within 5 s")
            return deepcopy(self.known[path.rpartition("/")[2]])

    def items(self, path: str, kind: str, accept: str = "") -> list[Resource]:
        if kind == "Pod":
            assert path == "/api/v1/pods?fieldSelector=spec.nodeName%3Dg1"
            return deepcopy(self.pods)
        assert (path, kind) == ("/api/v1/nodes", "Node")
        assert "as=PartialObjectMetadataList" in accept
        with self.lock:
            return [{"metadata": deepcopy(one["metadata"])} for one in self.known.values()]

    def change(self, path: str, content: str, kind: str, verb: str = "PATCH") -> None:
        patch = json.loads(content)
        if verb != "PATCH":
            self.others.append((verb, path, patch))
            return
        with self.lock:
            if self.silent:
                raise Unreadable("10.0.0.1:6443 did not answer within 5 s")
            name = path.removeprefix("/api/v1/nodes/").removesuffix("/status")
            self.sent.append((name, deepcopy(patch)))
            one = self.known[name]
            if kind == STRATEGIC:
                one["status"] = patch["status"]
                return
            meta = patch.get("metadata", {})
            version = one["metadata"]["resourceVersion"]
            if meta.pop("resourceVersion", version) != version:
                raise Unreadable("10.0.0.1:6443 answered 409: the object has been modified")
            one["metadata"]["resourceVersion"] = str(int(version) + 1)
            for key, value in meta.get("annotations", {}).items():
                annotations = one["metadata"].setdefault("annotations", {})
                annotations.pop(key, None)
                annotations |= {key: value} if value is not None else {}
            one["spec"] |= patch.get("spec", {})
            self.highest = max(self.highest, len(self.out()))


@pytest.fixture
def nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Nodes:
    api = Nodes()
    monkeypatch.setattr(cluster, "Api", lambda ask, kubeconfig: api)
    monkeypatch.setattr(Cluster, "place", place_in(tmp_path))
    monkeypatch.setattr(bound, "PAUSE_S", 0.001)
    return api


def place_in(folder: Path) -> Place:
    last = str(folder / "run/node-watch.json")
    return Place(KUBERNETES.scheduler, last, KUBERNETES.metrics, "", KUBERNETES.check)


def act(*causes: Cause, most: int = 1, gaps: tuple[str, ...] = (), repaired: bool = False) -> Any:
    given = {"version": 1, "node": "g1", "most_out": most, "return_after_minutes": 10}
    return act_on(
        given, Verdict(list(causes), list(gaps)), Cluster("g1"), "resume" if repaired else "act"
    )


def test_the_reason_is_the_one_that_the_program_and_deployments_know() -> None:
    assert PREFIX == HEALTH


def test_an_unfit_host_cordons_itself_with_the_cause(nodes: Nodes) -> None:
    assert act(LOST).state == verdict.OUT
    assert nodes.out() == ["g1"]
    assert nodes.annotations("g1") == {
        REASON: "appliance: health: gpu.error GPU 3: the driver cannot reach it"
    }
    said = nodes.condition("g1")
    assert (said["type"], said["status"], said["reason"]) == (CONDITION, "False", "GpuError")
    assert said["message"] == (
        "gpu.error GPU 3: the driver cannot reach it (cordoned; returns by appliance-node-watch resume)"
    )
    assert {name for name, _ in nodes.sent} == {"g1"}


def test_a_fit_host_reports_itself_once_and_asks_no_more(nodes: Nodes) -> None:
    act()
    assert nodes.condition("g1")["status"] == "True"
    nodes.sent.clear()
    nodes.silent = True
    assert not act().gaps
    assert nodes.sent == []


def test_the_condition_is_written_again_as_a_sign_of_life(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    act()
    began = nodes.condition("g1")["lastTransitionTime"]
    monkeypatch.setattr(cluster, "HEARTBEAT_S", 0.0)
    nodes.sent.clear()
    act()
    assert [list(patch) for _, patch in nodes.sent] == [["status"]]
    assert nodes.condition("g1")["lastTransitionTime"] == began


def test_what_could_not_be_judged_cordons_no_host_and_is_unknown(nodes: Nodes) -> None:
    act(gaps=("gpus: nvidia-smi did not answer",))
    said = nodes.condition("g1")
    assert (said["status"], said["reason"]) == ("Unknown", "NotJudged")
    assert nodes.out() == []


def test_an_api_without_an_answer_is_reported_and_the_next_look_acts(nodes: Nodes) -> None:
    nodes.silent = True
    seen = act(LOST)
    assert seen.state == verdict.SILENT
    assert "did not answer within 5 s" in seen.gaps[0]
    nodes.silent = False
    assert act(LOST).state == verdict.OUT


def test_over_the_limit_it_stays_and_its_condition_says_why(nodes: Nodes) -> None:
    nodes.known["g2"]["spec"] = {"unschedulable": True}
    nodes.known["g2"]["metadata"]["annotations"] = {REASON: PREFIX + "gpu.ecc GPU 0: 2"}
    assert act(LOST).state == verdict.OVER
    assert nodes.out() == ["g2"]
    said = nodes.condition("g1")
    assert said["status"] == "False"
    assert "as many hosts as the site allows" in said["message"]


def test_a_cordon_by_an_operator_is_neither_counted_nor_ended(nodes: Nodes) -> None:
    nodes.known["g2"]["spec"] = {"unschedulable": True}
    assert act(LOST).state == verdict.OUT
    nodes.known["g1"] = node("g1")
    nodes.known["g1"]["spec"] = {"unschedulable": True}
    act(DISK)
    act()
    assert nodes.out() == ["g1", "g2"]
    assert nodes.annotations("g1") == {}


def test_a_host_that_an_operator_uncordoned_stays_until_a_new_fault(nodes: Nodes) -> None:
    act(LOST)
    nodes.known["g1"]["spec"] = {}
    assert act(LOST).state == verdict.LEFT
    assert nodes.annotations("g1") == {}
    assert act(LOST).state == verdict.LEFT
    assert nodes.out() == []
    assert act(LOST, DISK).state == verdict.OUT


@pytest.mark.parametrize(("cause", "returns"), [(DISK, True), (LOST, False)])
def test_a_fault_that_ends_by_itself_gives_the_host_back_after_a_while(
    nodes: Nodes, cause: Cause, returns: bool
) -> None:
    act(cause)
    act()
    assert nodes.out() == ["g1"]
    file = Path(Cluster.place.last)
    said = json.loads(file.read_text())
    assert said["returns"] is returns
    file.write_text(json.dumps({**said, "since": said["since"] - 601}))
    act()
    assert nodes.out() == [] if returns else ["g1"]
    assert (REASON in nodes.annotations("g1")) is not returns


def test_resume_ends_its_own_cordon_of_a_fit_host_at_once_and_no_other(nodes: Nodes) -> None:
    act(LOST)
    act(LOST, repaired=True)
    assert nodes.out() == ["g1"]
    act(repaired=True)
    assert nodes.out() == []
    nodes.known["g1"]["spec"] = {"unschedulable": True}
    act(repaired=True)
    assert nodes.out() == ["g1"]


def test_a_host_of_another_scheduler_is_not_cordoned(nodes: Nodes) -> None:
    nodes.known["g1"]["spec"] = {"taints": [{"key": OWNER, "value": "slurm"}]}
    act(LOST)
    assert nodes.annotations("g1") == {}
    assert nodes.condition("g1")["status"] == "False"


def test_a_node_that_changed_since_it_was_read_stays(nodes: Nodes) -> None:
    door = Cluster("g1")
    door.nodes()
    nodes.known["g1"]["metadata"]["resourceVersion"] = "7"
    with pytest.raises(Silent, match="modified"):
        door.drain("gpu.error")
    assert nodes.out() == []


@pytest.mark.parametrize("most", [1, 4])
def test_forty_hosts_at_once_are_no_more_than_the_limit(nodes: Nodes, most: int) -> None:
    names = [f"g{number}" for number in range(1, 41)]
    nodes.known = {name: node(name) for name in names}

    def take_out(name: str) -> None:
        bound.take_out(Cluster(name), "gpu.error GPU 3", most)

    with ThreadPoolExecutor(40) as pool:
        list(pool.map(take_out, names))
    assert (nodes.highest, len(nodes.out())) == (most, most)
    assert not any(ANNOUNCED in nodes.annotations(name) for name in names)


def test_a_change_goes_to_the_api_as_a_patch(serve: Serve, tmp_path: Path) -> None:
    content = '{"spec": {"unschedulable": true}}'
    key = f"PATCH /api/v1/nodes/g1 {MERGE} {content}"
    api = serve({key: {}, f"PATCH /api/v1/nodes/g2 {MERGE} {content}": (409, "{}")})
    file = tmp_path / "kubelet.conf"
    file.write_text(api.kubeconfig())
    door = Api(Ask({}), str(file))
    door.change("/api/v1/nodes/g1", content, MERGE)
    with pytest.raises(Unreadable, match="409"):
        door.change("/api/v1/nodes/g2", content, MERGE)
    assert api.seen == [("/api/v1/nodes/g1", "admin"), ("/api/v1/nodes/g2", "admin")]


def test_settings_name_the_scheduler() -> None:
    assert isinstance(command.door({"node": "g1", "scheduler": "kubernetes"}), Cluster)
    assert command.door({"node": "g1"}).place.scheduler == "Slurm"
