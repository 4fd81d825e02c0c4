"""MIG on demand on one host: instances come for those who ask, go when nobody has them, and nothing in use is ever touched."""

import json
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from appliance.lab.hardware import Hardware
from appliance.mig import clients, demand, node, serve
from appliance.mig import host as host_module
from appliance.mig import server as server_module
from appliance.mig.gpu import Gpu
from appliance.mig.layout import WHOLE, Layout, Refused, Spot
from appliance.probe import nvml
from appliance.probe.nvml import Failure, Library
from tests.support.mig_host import MigHost

SIZES = {"1g.10gb": (19, 1, [0, 1, 2, 3, 4, 5, 6]), "3g.40gb": (9, 4, [0, 4])}
POLICY: dict[str, Any] = {
    "version": 1,
    "node": "gpu-1",
    "count": 3,
    "gpus": [0, 1, 2],
    "profiles": [
        {"profile": name, "id": number, "size": size, "starts": starts}
        for name, (number, size, starts) in SIZES.items()
    ],
    "whole": 1,
    "unused_s": 600,
}
WALL = 1_790_000_000.0


def shown() -> list[dict[str, Any]]:
    with host_module.driver() as library:
        return host_module.show(library)


class Cluster(node.Node):
    """A node with NVIDIA's device plugin, which sees MIG at its start only. ``pods_here`` by name, with their devices."""

    def __init__(self, host: MigHost, folder: Path) -> None:
        super().__init__("gpu-1")
        self.host, self.file = host, folder / "checkpoint"
        meta = {"name": "gpu-1", "resourceVersion": "1"}
        self.said: dict[str, Any] = {"metadata": meta, "spec": {}, "status": {}}
        self.here: dict[str, dict[str, Any]] = {}
        self.entries: dict[str, list[str]] = {}
        self.changes: list[str] = []
        self.deaf = False
        self.pod("plugin", space="gpu-operator", app="nvidia-device-plugin-daemonset")
        self.start_plugin()

    def pod(self, name: str, *devices: str, space: str = "kai-a", **more: Any) -> None:
        """A pod of this node; with ``limits`` it asks for GPUs."""
        box = {
            "resources": {"limits": more.pop("limits", {"nvidia.com/gpu": "1"} if devices else {})}
        }
        phase = more.pop("phase", "Running")
        meta = {"name": name, "namespace": space, "uid": f"uid-{name}", "labels": more}
        self.here[name] = {
            "metadata": meta,
            "spec": {"containers": [box]},
            "status": {"phase": phase},
        }
        if devices:
            self.entries[f"uid-{name}"] = list(devices)
        self.checkpoint()

    def checkpoint(self) -> None:
        told = [
            {"PodUID": uid, "ResourceName": "nvidia.com/x", "DeviceIDs": {"-1": devices}}
            for uid, devices in self.entries.items()
        ]
        self.file.write_text(
            json.dumps({"Data": {"PodDeviceEntries": told or None}, "Checksum": 1})
        )

    def start_plugin(self) -> None:
        if self.deaf:
            return
        names = [one["profile"] for gpu in shown() for one in gpu["instances"]]
        parts = {node.PART + name: str(names.count(name)) for name in names}
        whole = str(sum(1 for gpu in shown() if gpu["layout"] == "whole"))
        self.said["status"]["allocatable"] = {"cpu": "8", "nvidia.com/gpu": whole, **parts}

    def wish(self, serial: str, at: float = WALL, **make: int) -> None:
        said = {
            "serial": serial,
            "at": at,
            "make": {k.replace("_", "."): n for k, n in make.items()},
        }
        self.said["metadata"].setdefault("annotations", {})[node.WISH] = json.dumps(said)

    def drain(self, reason: str = "appliance: the driver is changed") -> None:
        """As the appliance does it: whatever was said there before."""
        meta = self.said["metadata"]
        meta.setdefault("annotations", {})[node.DRAINED] = reason
        meta["resourceVersion"] = str(int(meta["resourceVersion"]) + 1)
        self.said["spec"]["unschedulable"] = True

    @property
    def notes(self) -> dict[str, str]:
        found: dict[str, str] = self.said["metadata"].get("annotations", {})
        return found

    @property
    def report(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.said["metadata"]["annotations"][node.STATE])
        return found

    def _run(self, *words: str) -> str:
        if words[:2] == ("get", "node"):
            return json.dumps(self.said)
        if words[:2] == ("get", "pods"):
            return json.dumps({"items": list(self.here.values())})
        if words[0] == "delete":
            self.changes.append(f"delete {words[2]}")
            self.start_plugin()
            return ""
        change = json.loads(words[-1])
        version = self.said["metadata"]["resourceVersion"]
        if change["metadata"].get("resourceVersion", version) != version:
            raise node.Conflict("the object has been modified")
        self.said["metadata"]["resourceVersion"] = str(int(version) + 1)
        notes = self.said["metadata"].setdefault("annotations", {})
        for key, value in change["metadata"]["annotations"].items():
            notes.pop(key, None)
            if value is not None:
                notes[key] = value
        if "spec" in change:
            shut = change["spec"]["unschedulable"]
            self.said["spec"] = {"unschedulable": True} if shut else {}
            self.changes.append("cordon" if shut else "uncordon")
        return ""


class Rig:
    """The host, its node and the program, with a clock that is turned by hand."""

    def __init__(self, host: MigHost, folder: Path) -> None:
        self.host, self.node = host, Cluster(host, folder)
        self.steady, self.ended = 1000.0, False
        self.policy = demand.parse(json.dumps(POLICY))
        self.server = self.fresh()

    def fresh(self, **policy: Any) -> server_module.Server:
        clock = server_module.Clock(
            lambda: WALL, lambda: self.steady, self.sleep, lambda: self.ended
        )
        given = demand.parse(json.dumps({**POLICY, **policy}))
        return server_module.Server(given, self.node, clock)

    def sleep(self, seconds: float) -> None:
        self.steady += seconds

    def round(self) -> dict[str, Any]:
        return self.server.round()

    def layouts(self) -> list[str]:
        return [gpu["layout"] for gpu in shown()]

    def devices(self) -> list[str]:
        """UUIDs of the MIG devices, by their places."""
        return [uuid for gpu in shown() for one in gpu["instances"] for uuid in one["devices"]]

    def gpu(self, number: int) -> str:
        found: str = shown()[number]["uuid"]
        return found


@pytest.fixture
def rig(layer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rig:
    host = MigHost(layer, tmp_path, Hardware("a100-sxm", 3))
    monkeypatch.setattr(nvml, "LIBRARY", str(host.library))
    for name, value in host.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(host_module, "LOCK", str(tmp_path / "lock"))
    monkeypatch.setattr(clients, "stop", list)
    monkeypatch.setattr(clients, "reset", lambda index: False)
    monkeypatch.setattr(node, "CHECKPOINT", str(tmp_path / "checkpoint"))
    monkeypatch.setattr(node, "PODS", str(tmp_path / "pods"))
    return Rig(host, tmp_path)


def test_a_wish_divides_one_whole_gpu_while_no_pod_can_come(rig: Rig) -> None:
    rig.node.wish("1", **{"1g_10gb": 2})
    report = rig.round()
    assert rig.layouts() == ["2 x 1g.10gb", "whole", "whole"]
    assert rig.node.changes == ["cordon", "delete plugin", "uncordon"]
    assert (report["problem"], report["serial"]) == ("", "1")
    assert rig.node.offers()["1g.10gb"] == 2
    assert rig.node.report["free"] == {"1g.10gb": 2, "3g.40gb": 0}


def test_a_wish_is_carried_out_once_also_by_a_program_that_was_started_anew(rig: Rig) -> None:
    rig.node.wish("1", **{"1g_10gb": 1})
    rig.round()
    rig.round()
    rig.server = rig.fresh()
    rig.round()
    assert rig.layouts()[0] == "1g.10gb"


def test_the_next_instance_comes_beside_others_and_leaves_room_for_large_ones(rig: Rig) -> None:
    rig.node.wish("1", **{"1g_10gb": 2})
    rig.round()
    rig.host.use(0, "0")
    rig.node.wish("2", **{"3g_40gb": 1})
    before = rig.devices()
    assert rig.round()["problem"] == ""
    assert rig.layouts() == ["3g.40gb, 2 x 1g.10gb", "whole", "whole"]
    assert set(before) < set(rig.devices())


@pytest.mark.parametrize("how", ["process", "pod"])
def test_a_gpu_of_somebody_is_not_divided(rig: Rig, how: str) -> None:
    if how == "process":
        rig.host.use(0)
    else:
        rig.node.pod("whole", rig.gpu(0))
    rig.node.wish("1", **{"3g_40gb": 4})
    report = rig.round()
    assert rig.layouts() == ["whole", "2 x 3g.40gb", "2 x 3g.40gb"]
    assert report["problem"] == ""


def test_so_many_gpus_stay_whole(rig: Rig) -> None:
    rig.node.wish("1", **{"3g_40gb": 6})
    report = rig.round()
    assert rig.layouts().count("whole") == 1
    assert "4 of 6 x 3g.40gb made: there is no room for more" in report["problem"]
    rig.steady += 3600
    assert "problem" in rig.node.report
    assert rig.server.round()["problem"] == ""


def test_what_nobody_has_goes_after_its_time_and_the_gpu_is_whole_again(rig: Rig) -> None:
    rig.node.wish("1", **{"1g_10gb": 2})
    rig.round()
    rig.steady += 500
    rig.round()
    assert rig.layouts()[0] == "2 x 1g.10gb"
    rig.steady += 200
    rig.round()
    assert rig.layouts() == ["whole", "whole", "whole"]
    assert rig.node.offers() == {"gpu": 3}
    assert rig.node.said["spec"] == {}


@pytest.mark.parametrize("how", ["process", "pod", "pod the API has lost"])
def test_an_instance_of_somebody_stays_and_its_neighbour_goes(rig: Rig, how: str) -> None:
    rig.node.wish("1", **{"1g_10gb": 2})
    rig.round()
    kept = rig.devices()[0]
    if how == "process":
        rig.host.use(0, str(shown()[0]["instances"][0]["id"]))
    else:
        rig.node.pod("part", kept)
    if how == "pod the API has lost":
        del rig.node.here["part"]
        Path(node.PODS, "uid-part").mkdir(parents=True)
    rig.round()
    rig.steady += 700
    rig.round()
    assert rig.layouts()[0] == "1g.10gb"
    assert rig.devices()[0] == kept


def test_a_pod_that_is_over_has_its_instance_no_more(rig: Rig) -> None:
    rig.node.wish("1", **{"1g_10gb": 1})
    rig.round()
    rig.node.pod("done", rig.devices()[0], phase="Succeeded")
    rig.round()
    rig.steady += 700
    rig.round()
    assert rig.layouts()[0] == "whole"


def test_time_begins_anew_when_an_instance_was_had(rig: Rig) -> None:
    rig.node.wish("1", **{"1g_10gb": 1})
    rig.round()
    rig.steady += 590
    rig.node.pod("short", rig.devices()[0])
    rig.round()
    rig.node.pod("short", phase="Succeeded")
    rig.round()
    rig.steady += 590
    rig.round()
    assert rig.layouts()[0] == "1g.10gb"


def test_a_pod_on_its_way_is_waited_for_and_what_it_gets_is_left(rig: Rig) -> None:
    rig.node.pod("late", limits={"nvidia.com/gpu": "1"}, phase="Pending")
    rig.node.wish("1", **{"1g_10gb": 1})
    arrives, sleep = rig.steady + 10, rig.sleep

    def arriving(seconds: float) -> None:
        sleep(seconds)
        if rig.steady > arrives and "uid-late" not in rig.node.entries:
            rig.node.pod("late", rig.gpu(0))

    rig.sleep = arriving  # type: ignore[method-assign]
    rig.server = rig.fresh()
    rig.round()
    assert rig.layouts() == ["whole", "1g.10gb", "whole"]


def test_a_plugin_that_still_offers_a_gpu_as_whole_is_waited_for(rig: Rig) -> None:
    def half(*words: str) -> str:
        said = run(*words)
        if words[0] == "delete":
            rig.node.said["status"]["allocatable"]["nvidia.com/gpu"] = "3"
        return said

    run, rig.node._run = rig.node._run, half  # type: ignore[method-assign]
    rig.node.wish("1", **{"1g_10gb": 1})
    assert "3 x gpu" in rig.round()["problem"]


def test_a_pod_that_was_placed_before_and_is_bound_late_gets_its_gpu(rig: Rig) -> None:
    def bound() -> None:
        if "late" not in rig.node.here:
            rig.node.pod("late", rig.gpu(0))

    meanwhile(rig, bound, after=7)
    rig.node.wish("1", **{"1g_10gb": 1})
    rig.round()
    assert rig.layouts() == ["whole", "1g.10gb", "whole"]


def test_a_pod_that_asks_for_none_is_not_waited_for(rig: Rig) -> None:
    rig.node.pod("none", limits={"nvidia.com/gpu": "0"})
    rig.node.wish("1", **{"1g_10gb": 1})
    assert rig.round()["problem"] == ""


def test_a_pod_that_never_arrives_keeps_gpus_as_they_are_and_the_host_open(rig: Rig) -> None:
    rig.node.pod("stuck", limits={"nvidia.com/gpu": "1"}, phase="Pending")
    rig.node.wish("1", **{"1g_10gb": 1})
    assert "kai-a/stuck has no devices yet" in rig.round()["problem"]
    assert rig.layouts() == ["whole"] * 3
    assert rig.node.said["spec"] == {}


@pytest.mark.parametrize(
    ("spec", "reason", "told"),
    [
        ({"unschedulable": True}, "", "it is cordoned"),
        ({"unschedulable": True}, "appliance: Kubernetes is upgraded", "it is drained (appliance"),
        ({}, "appliance: the driver is changed", "it is drained (appliance"),
        ({"taints": [{"key": node.OWNER, "value": "slurm"}]}, "", "it is a host of slurm"),
    ],
)
def test_a_host_somebody_else_has_closed_is_not_even_looked_at(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, spec: dict[str, Any], reason: str, told: str
) -> None:
    monkeypatch.setattr(nvml, "LIBRARY", "/nowhere")
    rig.node.said["spec"] = spec
    rig.node.said["metadata"]["annotations"] = {node.DRAINED: reason} if reason else {}
    rig.node.wish("1", **{"1g_10gb": 1})
    report = rig.round()
    assert told in report["waits"]
    assert (report["problem"], report["serial"]) == ("", "1")
    assert set(report["room"].values()) == {0}
    assert rig.node.changes == []


def test_time_begins_anew_after_what_was_not_looked_at(rig: Rig) -> None:
    rig.node.wish("1", **{"1g_10gb": 1})
    rig.round()
    for hide in (rig.node.drain, rig.node.file.unlink):
        rig.steady += 590
        hide()
        with suppress(Refused):
            rig.round()
        rig.node.notes.pop(node.DRAINED, None)
        rig.node.said["spec"] = {}
        rig.node.checkpoint()
        rig.steady += 590
        rig.round()
    assert rig.layouts()[0] == "1g.10gb"


def test_a_device_without_a_name_may_be_anybodys(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    def nameless(self: Library, name: str, *arguments: Any) -> int:
        return (
            999 if name == "nvmlDeviceGetMigDeviceHandleByIndex" else call(self, name, *arguments)
        )

    rig.node.wish("1", **{"1g_10gb": 1})
    rig.round()
    call = Library.call
    monkeypatch.setattr(Library, "call", nameless)
    assert rig.round()["free"]["1g.10gb"] == 0
    rig.steady += 3600
    rig.round()
    assert rig.layouts()[0] == "1g.10gb"


def test_a_gpu_left_without_instances_is_whole_again_in_time(rig: Rig) -> None:
    with host_module.driver() as library:
        Gpu(library, 0).ask_mode(True)
    rig.round()
    rig.steady += 700
    rig.round()
    assert rig.layouts() == ["whole"] * 3


def test_a_gpu_that_fails_is_passed_over(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Gpu, spot: Spot) -> None:
        if not self.index:
            raise Failure("Insufficient Resources")
        make(self, spot)

    make = Gpu.make
    monkeypatch.setattr(Gpu, "make", broken)
    rig.node.wish("1", **{"1g_10gb": 1})
    assert rig.round()["problem"].startswith("GPU 0: failed: Insufficient Resources")
    assert rig.layouts() == ["whole", "1g.10gb", "whole"]


def test_an_instance_that_cannot_be_filled_is_taken_away_again(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    def call(self: Library, name: str, *arguments: Any) -> int:
        refused = name == "nvmlGpuInstanceCreateComputeInstance"
        return 999 if refused else works(self, name, *arguments)

    rig.node.wish("1", **{"1g_10gb": 1})
    rig.round()
    works = Library.call
    monkeypatch.setattr(Library, "call", call)
    rig.node.wish("2", **{"3g_40gb": 1})
    rig.round()
    assert rig.layouts() == ["1g.10gb", "whole", "whole"]


def test_a_mode_that_would_wait_for_a_reset_is_asked_for_no_longer(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    def waits(self: Gpu, on: bool) -> bool:
        asked.append(on)
        return False

    asked: list[bool] = []
    monkeypatch.setattr(Gpu, "ask_mode", waits)
    rig.node.wish("1", **{"1g_10gb": 1})
    assert "MIG mode on needs an idle GPU" in rig.round()["problem"]
    assert asked == [True, False, True, False]


def test_what_cannot_be_taken_away_closes_the_host_once_and_not_at_every_look(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: Gpu, instance: object) -> None:
        raise Failure("In use by another client")

    rig.node.wish("1", **{"1g_10gb": 1})
    rig.round()
    monkeypatch.setattr(Gpu, "remove", broken)
    rig.steady += 700
    rig.node.changes.clear()
    for _ in range(3):
        assert "In use by another client" in rig.round()["problem"]
    assert rig.node.changes == ["cordon", "delete plugin", "uncordon"]


def test_somebody_else_who_divides_gpus_is_not_waited_for_for_ever(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "LOCK_S", 0.0)
    rig.node.wish("1", **{"1g_10gb": 1})
    with host_module.alone():
        assert "another process has held the MIG lock" in rig.round()["problem"]
    assert rig.node.said["spec"] == {}


def test_a_cordon_of_a_program_that_was_killed_is_taken_back(rig: Rig) -> None:
    rig.node.wish("1", **{"1g_10gb": 1})
    rig.node.look()
    rig.node.hold("1")
    assert rig.round()["serial"] == "1"
    assert rig.node.said["spec"] == {}
    assert rig.node.notes.keys() == {node.WISH, node.STATE}
    # What was begun is not begun again, and the device plugin sees what was made of it.
    assert rig.layouts() == ["whole"] * 3
    assert rig.node.changes == ["cordon", "delete plugin", "uncordon"]


def meanwhile(rig: Rig, act: Callable[[], None], after: float = 0.0) -> None:
    """Something happens while the program waits."""
    sleep, at = rig.sleep, rig.steady + after

    def busy(seconds: float) -> None:
        sleep(seconds)
        if rig.steady > at:
            act()

    rig.sleep = busy  # type: ignore[method-assign]
    rig.server = rig.fresh()


def test_a_drain_that_comes_before_the_division_has_the_host_as_it_is(rig: Rig) -> None:
    meanwhile(rig, rig.node.drain)
    rig.node.wish("1", **{"1g_10gb": 1})
    assert rig.round()["problem"] == ""
    assert rig.layouts() == ["whole"] * 3
    assert rig.node.said["spec"] == {"unschedulable": True}
    assert rig.node.notes[node.DRAINED] == "appliance: the driver is changed"
    assert node.AT_WORK not in rig.node.notes


def test_a_drain_that_comes_after_the_division_keeps_its_cordon(rig: Rig) -> None:
    rig.node.deaf = True
    meanwhile(rig, rig.node.drain, after=30)
    rig.node.wish("1", **{"1g_10gb": 1})
    assert rig.round()["problem"] == ""
    assert rig.layouts()[0] == "1g.10gb"
    assert rig.node.said["spec"] == {"unschedulable": True}
    assert node.AT_WORK not in rig.node.notes


def test_the_mark_a_drain_waits_for_stays_until_nothing_is_changed(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    def seen(self: Gpu, spot: Spot) -> None:
        marks.append(rig.node.notes[node.AT_WORK])
        make(self, spot)

    marks: list[str] = []
    make = Gpu.make
    monkeypatch.setattr(Gpu, "make", seen)
    rig.node.wish("7", **{"1g_10gb": 1})
    rig.round()
    assert marks == ["7"]
    assert node.AT_WORK not in rig.node.notes


def test_a_host_a_person_has_opened_meanwhile_is_not_divided(rig: Rig) -> None:
    meanwhile(rig, lambda: rig.node.said.update(spec={}))
    rig.node.wish("1", **{"1g_10gb": 1})
    rig.round()
    assert rig.layouts() == ["whole"] * 3
    assert rig.node.notes.keys() == {node.WISH, node.STATE}


def test_a_cordon_without_its_mark_is_taken_back_all_the_same(rig: Rig) -> None:
    rig.node.drain(node.REASON)
    rig.round()
    assert rig.node.said["spec"] == {}
    assert rig.node.notes.keys() == {node.STATE}


@pytest.mark.parametrize("verb", ["hold", "give_back"])
def test_a_drain_between_the_look_and_the_change_is_not_written_over(rig: Rig, verb: str) -> None:
    rig.node.look()
    if verb == "give_back":
        rig.node.hold("1")
        rig.node.drain()
        rig.node.give_back()
    else:
        rig.node.drain()
        with pytest.raises(Refused, match="it is drained"):
            rig.node.hold("1")
    assert rig.node.notes == {node.DRAINED: "appliance: the driver is changed"}
    assert rig.node.said["spec"] == {"unschedulable": True}


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("(Conflict): Operation cannot be fulfilled on nodes: it has been modified", node.Conflict),
        ("(Forbidden): nodes is forbidden", Refused),
    ],
)
def test_kubectl_says_whether_the_node_was_changed_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, kind: type[Refused]
) -> None:
    kubectl = tmp_path / "kubectl"
    kubectl.write_text(f"#!/bin/sh\necho 'Error from server {said}' >&2\nexit 1\n")
    kubectl.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with pytest.raises(Refused, match="kubectl patch node: Error from server") as told:
        node.Node("gpu-1").tell("{}")
    assert told.type is kind


def test_a_node_kubelet_has_changed_meanwhile_is_closed_all_the_same(rig: Rig) -> None:
    rig.node.look()
    rig.node.said = {**rig.node.said, "metadata": {"name": "gpu-1", "resourceVersion": "9"}}
    rig.node.hold("1")
    assert rig.node.is_held


def test_a_node_that_is_changed_again_and_again_is_left(rig: Rig) -> None:
    def other(*words: str) -> str:
        if words[0] == "patch":
            rig.node.said["metadata"]["resourceVersion"] += "0"
        return run(*words)

    run, rig.node._run = rig.node._run, other  # type: ignore[method-assign]
    rig.node.look()
    with pytest.raises(node.Conflict):
        rig.node.hold("1")


def test_a_program_that_is_ended_breaks_off_and_opens_the_host(rig: Rig) -> None:
    meanwhile(rig, lambda: setattr(rig, "ended", True))
    rig.node.wish("1", **{"1g_10gb": 1})
    rig.round()
    assert rig.layouts() == ["whole"] * 3
    assert rig.node.said["spec"] == {}
    assert rig.node.notes.keys() == {node.WISH, node.STATE}


def test_a_plugin_that_does_not_look_again_is_said(rig: Rig) -> None:
    rig.node.deaf = True
    rig.node.wish("1", **{"1g_10gb": 1})
    assert (
        "the node still offers 3 x gpu: kubectl logs of NVIDIA's device plugin"
        in rig.round()["problem"]
    )
    assert rig.node.said["spec"] == {}


def test_a_driver_that_refuses_is_said_and_the_gpu_is_as_it_was(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: Gpu, spot: Spot) -> None:
        raise Failure("Insufficient Resources")

    monkeypatch.setattr(Gpu, "make", broken)
    rig.node.wish("1", **{"1g_10gb": 1})
    problem = rig.round()["problem"]
    assert problem.startswith("GPU 0: failed: Insufficient Resources; the previous layout")
    assert rig.layouts() == ["whole"] * 3


@pytest.mark.parametrize("said", [None, "{", "[]", '{"Data": {}}'])
def test_where_it_is_not_known_who_has_what_nothing_is_touched(rig: Rig, said: str | None) -> None:
    rig.node.wish("1", **{"1g_10gb": 1})
    rig.node.file.unlink() if said is None else rig.node.file.write_text(said)
    with pytest.raises(Refused, match="the GPUs of pods are unknown"):
        rig.round()
    assert (rig.layouts(), rig.node.changes) == (["whole"] * 3, [])


def test_a_driver_that_fails_is_one_line(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(self: Library, name: str, *arguments: Any) -> bool:
        raise Failure("DeviceGetCount_v2: Driver/library version mismatch")

    monkeypatch.setattr(serve, "KUBECONFIG", str(rig.node.file))
    monkeypatch.setattr(Library, "works", lost)
    assert "version mismatch" in serve.look(rig.server)["problem"]


def test_where_a_gpu_is_missing_nothing_is_touched(rig: Rig) -> None:
    rig.host.state["gpu1"]["off_bus"] = 1
    rig.host.write()
    rig.node.wish("1", **{"1g_10gb": 1})
    with pytest.raises(Refused, match="2 of 3 GPUs answer"):
        rig.round()
    assert rig.node.changes == []


def test_the_cluster_is_told_what_is_not_known_and_asks_somebody_else(rig: Rig) -> None:
    rig.node.file.unlink()
    rig.node.wish("1", **{"1g_10gb": 1})
    with pytest.raises(Refused):
        rig.round()
    assert "the GPUs of pods are unknown" in rig.node.report["problem"]
    assert (rig.node.report["serial"], rig.node.report["room"]["1g.10gb"]) == ("1", 0)
    rig.node.checkpoint()
    assert rig.round()["problem"] == ""
    assert rig.layouts()[0] == "whole"


def test_a_driver_that_does_not_tell_who_computes_is_not_believed(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(self: Library, name: str, *arguments: Any) -> bool:
        return "RunningProcesses" not in name and works(self, name, *arguments)

    works = Library.works
    monkeypatch.setattr(Library, "works", silent)
    rig.node.wish("1", **{"1g_10gb": 1})
    with pytest.raises(Refused, match="does not list the processes"):
        rig.round()


@pytest.mark.parametrize("at", [WALL - 3600, WALL + 3600])
def test_a_wish_of_another_time_is_not_carried_out(rig: Rig, at: float) -> None:
    rig.node.wish("1", at, **{"1g_10gb": 1})
    assert "came too late" in rig.round()["problem"]
    assert rig.node.changes == []


@pytest.mark.parametrize(
    "said",
    [
        "{",
        "[]",
        '{"serial": "1"}',
        '{"serial": "1", "at": 1, "make": {}}',
        '{"serial": "1", "at": 1, "make": {"1g.10gb": 900}}',
    ],
)
def test_a_wish_nobody_can_read_is_none(rig: Rig, said: str) -> None:
    rig.node.said["metadata"]["annotations"] = {node.WISH: said}
    assert rig.round()["serial"] == ""


def test_a_profile_that_is_not_offered_is_refused(rig: Rig) -> None:
    rig.node.wish("1", **{"7g_80gb": 1})
    assert "7g.80gb is not created on demand on this host" in rig.round()["problem"]


def test_gpus_the_site_declares_are_left_alone(rig: Rig) -> None:
    rig.server = rig.fresh(gpus=[2], whole=0)
    rig.node.wish("1", **{"3g_40gb": 9})
    rig.round()
    assert rig.layouts() == ["whole", "whole", "2 x 3g.40gb"]


def test_the_report_is_told_when_it_is_new_and_every_minute(rig: Rig) -> None:
    rig.round()
    first = rig.node.report
    rig.node.said["metadata"]["annotations"].clear()
    rig.round()
    assert rig.node.said["metadata"]["annotations"] == {}
    rig.steady += 61
    rig.round()
    assert rig.node.report == first
    assert first["room"] == {"1g.10gb": 14, "3g.40gb": 4}
    assert first["beside"] == {"1g.10gb": 0, "3g.40gb": 0}


def test_it_ends_when_it_is_told_to(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    def told(server: server_module.Server) -> dict[str, str]:
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
        ended.append(server._clock.ended())
        return {"problem": "", "waits": ""}

    ended: list[bool] = []
    monkeypatch.setattr(serve, "look", told)
    monkeypatch.setattr(serve, "leave", lambda report: None)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        serve.serve(rig.policy)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    assert ended == [True]


def test_a_round_that_fails_is_one_line(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "KUBECONFIG", str(rig.node.file))
    rig.node.file.write_text("{")
    assert "are unknown" in serve.look(rig.server)["problem"]
    monkeypatch.setattr(serve, "KUBECONFIG", "/nowhere")
    assert serve.look(rig.server)["waits"] == serve.NOBODY


@pytest.mark.parametrize("text", ["{", "[]", '{"version": 2}', '{"version": 1}'])
def test_a_policy_nobody_can_read_is_one_line(text: str) -> None:
    with pytest.raises(Refused):
        demand.parse(text)


def test_instances_are_placed_so_that_most_is_left() -> None:
    sizes = demand.parse(json.dumps(POLICY)).sizes
    small, large = sizes
    assert [s.start for s in demand.fitting((), small, 3, sizes)] == [6, 5, 4]
    assert [s.start for s in demand.fitting((small.at(6),), large, 2, sizes)] == [0]
    assert len(demand.fitting((), small, 99, sizes)) == 7
    whole = demand.Seen(0, WHOLE, frozenset(), False)
    full = demand.Seen(1, Layout(True, (large.at(0), large.at(4))), frozenset(), False)
    policy = demand.parse(json.dumps({**POLICY, "whole": 0}))
    assert demand.arranged([full, whole], small, 1, policy) == {0: (small.at(6),)}
